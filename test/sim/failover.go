package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/failover"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// A run may have its target in an instance with two clusters, and be routed to the other one (H46).
// The clusters are not simulated side by side. When the app profile is routed to the other one,
// each row is there in its current or an earlier state, independently of all others. This includes
// the ledger's rows.

// leading is a failover from its cause to its end.
type leading struct {
	*simulation
	planned bool // all processes stop first, and everything is replicated
	gone    bool // the former cluster no longer exists
}

// byFailovers turns the plan into a run that is routed to another cluster, once or twice.
func (p *plan) byFailovers(without map[string]bool) {
	p.clustered = true
	rng := stream(p.seed, "failovers")
	for i := range 1 + rng.IntN(3)/2 {
		e := event{name: fmt.Sprintf("led to another cluster #%d", i+1), at: time.Duration(rng.Float64() * float64(p.length)), long: rng.Float64() * rng.Float64(), pick: rng.Uint64(),
			kind: &kind{name: "led to another cluster", gap: true, does: (*simulation).leadElsewhere}}
		if e.pick>>32%4 == 0 {
			e.at /= 16 // during the copy
		}
		if !without[e.name] && !without[e.kind.name] {
			p.events = append(p.events, e)
		}
	}
}

// leadElsewhere stops all processes, routes the app profile to a cluster that may lack some of the
// last writes, and lets an operator decide.
func (s *simulation) leadElsewhere(e event) {
	if s.knownCluster() == "" || s.led {
		return // no process knows the cluster, yet or any more
	}
	s.led = true
	l := &leading{simulation: s, planned: e.pick%3 == 0, gone: e.pick%3 == 1}
	behind := map[string]map[string]*model.Row{model.StateTable: s.Target.Snapshot(model.StateTable)}
	for _, table := range s.Mapping.Tables() {
		behind[table] = s.Target.Snapshot(table)
	}
	generation := s.State().Generation
	s.later(s.span(e, 40*time.Minute), func() {
		const quiet = time.Minute
		arrives := s.Target.LateBy + 2*quiet // earlier requests
		for _, m := range s.crew {
			m.away = max(m.away, s.World.Elapsed()+2*arrives)
			if l.planned {
				s.ask(m)
			} else {
				m.worker.Kill()
			}
		}
		s.healthy = max(s.healthy, s.World.Elapsed()+2*arrives)
		s.loads.leave(s.healthy)
		s.later(arrives, func() {
			s.World.Inject("led to another cluster")
			s.failedOver = true
			// If a generation began meanwhile, only clocks would tell the next generation where to
			// begin, and here they may be wrong.
			if !l.planned && s.State().Generation == generation && s.witnessed() {
				l.setBack(behind)
			}
			s.elsewhere = time.Duration(1<<62 - 1)
			p := s.World.NewProcess("operator of clusters")
			p.Go("failover", func() { l.decide(p.Context()) })
		})
	})
}

// setBack gives each row its earlier or its current state.
func (l *leading) setBack(behind map[string]map[string]*model.Row) {
	for table, then := range inOrder(behind) {
		rows := l.Target.Snapshot(table)
		keys := map[string]bool{}
		for key := range rows {
			keys[key] = true
		}
		for key := range then {
			keys[key] = true
		}
		for key := range inOrder(keys) {
			if l.World.Rand().IntN(2) == 0 {
				continue
			}
			if row := then[key]; row != nil {
				rows[key] = row
			} else {
				delete(rows, key)
			}
		}
		l.Target.Restore(table, rows)
	}
	l.World.Inject("rows missing in another cluster")
}

// decide repeats the command until it succeeds.
func (l *leading) decide(ctx context.Context) {
	plan := failover.Plan{State: model.StateTable, Still: l.Lease + l.Timing.List, StoppedFirst: l.planned}
	for task.Sleep(ctx, l.World.UpTo(30*time.Minute)) == nil {
		l.healthy = max(l.healthy, l.World.Elapsed()+time.Hour)
		for _, m := range l.crew {
			m.away = max(m.away, l.healthy)
		}
		l.loads.leave(l.healthy)
		ledger, err := checkpoint.Open(ctx, l.Store(), "default", checkpoint.Options{Worker: fmt.Sprint("operator of clusters ", l.World.Steps()), Lease: l.Lease, ReadOnly: true})
		var r failover.Result
		if err == nil {
			r, err = failover.Run(ctx, ledger, l, plan)
		}
		l.World.Tracef("the failover: %v, %v", r, err)
		var refused *failover.RefusedError
		if errors.As(err, &refused) {
			l.World.Inject("failover refused")
			plan.StoppedFirst = plan.StoppedFirst && !strings.Contains(refused.Cure, "--workers-stopped-first")
		}
		if errors.Is(err, checkpoint.ErrNoLedger) {
			r.Outcome, err = failover.Nothing, nil // it was lost meanwhile: the next one begins here
		}
		if err != nil {
			continue
		}
		l.World.Inject("failover by " + string(r.Outcome))
		l.elsewhere, l.led = 0, false
		for _, m := range l.crew {
			m.away = 0
		}
		l.healthy, l.loads.away = l.World.Elapsed(), 0
		return
	}
}

// Cluster is the cluster to which the app profile routes.
func (l *leading) Cluster(ctx context.Context) (string, error) { return l.whichCluster(ctx) }

// Exists reports whether the former cluster still exists.
func (l *leading) Exists(context.Context, string) (bool, error) { return !l.gone, nil }

// Replicate returns immediately. Writes that had not arrived before are lost with their cluster, or
// are older than later ones.
func (l *leading) Replicate(context.Context, string) error {
	return l.targetFault("CheckConsistency", "", "")
}
