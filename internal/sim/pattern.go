package sim

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// found is how a table joins that a pattern stands for: each worker looks for it, and passes over what it knows. Spec is the table as it joins.
func (s *simulation) found(o *pipeline.Options, spec pipeline.Table) func(context.Context, func(string) bool) (pipeline.Discovery, error) {
	return func(ctx context.Context, followed func(string) bool) (out pipeline.Discovery, err error) {
		if err := s.Source.call(ctx, "ListTables", ""); err != nil {
			return out, err
		}
		listed := !s.Source.outOfSight()
		states, err := o.Ledger.Tables(ctx)
		if err != nil {
			return out, err
		}
		if !listed {
			for _, state := range states {
				if state.Source != s.Source.Name {
					continue // no pattern stands for it
				}
				out.Refused = append(out.Refused, pipeline.Refusal{Table: state.Source, Reason: pipeline.GoneReason})
			}
			return out, nil
		}
		if followed(s.Source.Name) {
			return out, nil
		}
		_, err = s.Source.Describe(ctx, s.Source.Name)
		switch {
		case cdc.Is(err, cdc.NotFound):
			return out, nil
		case cdc.Is(err, cdc.Denied), cdc.Is(err, cdc.Malformed):
			out.Refused = append(out.Refused, pipeline.Refusal{Table: s.Source.Name, Reason: "it cannot be described"})
			return out, nil
		case err != nil:
			return out, err
		}
		out.Tables = append(out.Tables, spec)
		return out, nil
	}
}

// disappear lets the table be unknown to the service for a while, though its stream can be read.
func (s *simulation) disappear(e event) {
	s.World.Inject("table out of sight")
	s.Source.MissingUntil = s.World.Now().Add(s.span(e, 3*time.Hour))
	s.healthy = max(s.healthy, s.Source.MissingUntil.Sub(simEpoch))
}

func (t *Table) outOfSight() bool { return t.world.Now().Before(t.MissingUntil) }

// withoutImages gives the table a stream that does not tell what items were and became, as an operator's mistake does, and later one that does.
func (s *simulation) withoutImages(e event) {
	if s.Source.Stream().Ended {
		return
	}
	s.World.Inject("stream without images")
	s.Source.EnableStream(1).View = []string{"KEYS_ONLY", "OLD_IMAGE"}[e.pick%2]
	d := s.span(e, 2*time.Hour)
	s.healthy = max(s.healthy, s.World.Elapsed()+d)
	s.later(d, func() {
		if !s.Source.Stream().Ended {
			s.World.Inject("new stream")
			s.Source.EnableStream(1 + int(e.pick/2%3))
		}
	})
}

// otherCluster lets the app profile route to another cluster for a while: nobody may work there, and everybody may when it is over (H46).
func (s *simulation) otherCluster(e event) {
	s.elsewhere = max(s.elsewhere, s.World.Elapsed()+s.span(e, 3*time.Hour))
	s.healthy = max(s.healthy, s.elsewhere)
}

// whichCluster is what the target says of the app profile; now and then it cannot tell, or does not answer, which its client waits for as long as it may.
func (s *simulation) whichCluster(ctx context.Context) (string, error) {
	if err := s.targetFault("GetAppProfile", "", ""); err != nil {
		return "", err
	}
	if s.World.Rand().IntN(16) == 0 && !s.peaceful {
		s.World.Inject("no answer of the control plane")
		return "", task.NewEvent(ctx).Wait(ctx)
	}
	name := s.World.Running()
	if s.World.Rand().IntN(8) == 0 && !s.peaceful {
		delete(s.truth.told, name) // what it was told before was not looked into, and it goes on without
		return "", nil
	}
	// At home is where the ledger says, for a ledger that was begun or restored meanwhile belongs where it is.
	is := "one"
	known := s.knownCluster()
	if known != "" {
		is = known
	}
	if s.World.Elapsed() < s.elsewhere {
		is += "'"
	}
	switch {
	case known == "" || is == known:
		delete(s.truth.told, name)
	case s.truth.told[name] == 0:
		s.truth.told[name] = s.World.Elapsed()
	}
	return is, nil
}

// forgetTold forgets what a worker was told of the cluster when a fault keeps it from reading the ledger: it does not know that it is another than before. It
// is told again before it knows. Throttles do not count: a few attempts later it reads.
func (s *simulation) forgetTold(op, table string) {
	m, now := s.caller(), s.World.Elapsed()
	if m == nil || op != "ReadRows" || table != stateTable {
		return
	}
	if s.oneCall.strikes(op, table, now) || now < s.targetDown.until || now < m.noTarget {
		delete(s.truth.told, m.worker.Name())
	}
}

// knownCluster is the cluster that the ledger says the target is; "" if it says none.
func (s *simulation) knownCluster() string {
	return recordOf[pipelineRecord](s.Target.Row(stateTable, "default/pipeline")).Cluster
}

// pipelineRecord is what matters here of the row of the whole pipeline.
type pipelineRecord struct {
	Ledger  string `json:"ledger"`
	Cluster string `json:"cluster"`
}

// watchPipeline: a ledger has an id by which targets know it, and keeps it (H68); and a migration stays with its cluster (H46).
func (t *truth) watchPipeline(before, after *Row) {
	was, is := recordOf[pipelineRecord](before), recordOf[pipelineRecord](after)
	if is.Ledger == "" || was.Ledger != "" && was.Ledger != is.Ledger {
		t.m.violate("I6: ledger %q is now %q", was.Ledger, is.Ledger)
	}
	if was.Cluster != "" && is.Cluster != was.Cluster {
		t.m.violate("I6: the migration is of cluster %q, and goes on as one of %q", was.Cluster, is.Cluster)
	}
}

// watchBeat: who was told of another cluster keeps nothing there (H46). What was sent before may arrive still, and who was told may ask the ledger twice,
// and have no answer for long, before it knows.
func (t *truth) watchBeat(after *Row) {
	text, _ := after.Value(sink.LiveFamily, recordColumn)
	var record struct{ By string }
	if err := json.Unmarshal([]byte(text), &record); err != nil {
		panic(err)
	}
	if told := t.told[record.By]; told > 0 && t.m.World.Elapsed()-told > t.m.Target.LateBy+2*longSilence+time.Minute {
		t.m.violate("I6: %s goes on in another cluster than before, of which it was told at %s", record.By, told)
	}
}

// policy is what a seed says of items that cannot be stored: in most any number of them may be parked.
type policy struct {
	onBadItem sink.OnBadItem
	maxParked int
}

func drawPolicy(seed uint64) policy {
	rng := stream(seed, "bad items")
	switch rng.IntN(16) {
	case 0, 1:
		return policy{maxParked: 1 + rng.IntN(4)}
	case 2, 3:
		return policy{onBadItem: sink.Stop}
	}
	return policy{}
}

// relax is what an operator does after a worker ended for the sake of the policy: those that follow park as much as comes.
func (s *simulation) relax() { s.Policy = policy{} }

// checkPolicy: as long as nobody relaxed it, no more is parked than the policy allows (I5). What a late request brings back after it was removed, or brings
// when a later change has outdone it, is counted by nobody before another item is parked.
func (s *simulation) checkPolicy() {
	if n := s.truth.parkedItems(0, s.truth.struckOff, s.truth.overdue); s.Policy.maxParked > 0 && n > s.Policy.maxParked || s.Policy.onBadItem == sink.Stop && n > 0 {
		s.fail("I5", "%d items are parked, and nobody was stopped by that", n)
	}
}

// parkedItems is how many items are parked now, or were within the time before, without the rows of the given keys.
func (t *truth) parkedItems(within time.Duration, without ...map[string]bool) int {
	items := map[string]bool{}
	for item, at := range t.unparkedAt {
		if t.m.World.Elapsed()-at < within {
			items[item] = true
		}
	}
	for _, key := range t.m.Target.Rows(stateTable) {
		left := slices.ContainsFunc(without, func(keys map[string]bool) bool { return keys[key] })
		if p, ok := parkedIn(t.m.Target.Row(stateTable, key)); ok && !left {
			items[p.Key] = true
		}
	}
	return len(items)
}
