package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// appliers are the processes of a run in mode topic that write what the topic brings. They are
// killed, stopped, and stand still for hours with messages in their hands.
type appliers struct {
	r            *relaying
	subscription *model.Subscription
	all          []*Worker
	hired        int
}

func newAppliers(r *relaying, number int) *appliers {
	a := &appliers{r: r, subscription: model.NewSubscription(r.s.World), all: make([]*Worker, number)}
	rng := stream(r.s.plan.seed, "subscription")
	part := func(most float64) float64 {
		if rng.IntN(2) == 0 {
			return 0
		}
		return most * rng.Float64()
	}
	a.subscription.Twice, a.subscription.Forget, a.subscription.Fail = part(0.2), part(0.3), part(0.2)
	a.subscription.Down = r.topic.Down
	return a
}

// begin starts the processes, and what happens to them until the faults are over.
func (a *appliers) begin() {
	s := a.r.s
	for i := range a.all {
		a.hire(i)
	}
	rng := stream(s.plan.seed, "appliers")
	s.World.Go("appliers", func(ctx context.Context) {
		for task.Sleep(ctx, time.Duration(float64(40*time.Minute)*rng.Float64())) == nil {
			i := rng.IntN(len(a.all))
			w := a.all[i]
			switch chance := rng.Float64(); {
			case s.peaceful:
			case w.Over || w.Dead():
			case chance < 0.2:
				s.World.Inject("applier killed")
				w.Kill()
			case chance < 0.3:
				s.World.Inject("applier stopped")
				w.stop(context.Canceled)
			case chance < 0.5:
				long := time.Duration(float64(3*time.Hour) * rng.Float64() * rng.Float64())
				s.World.Inject("applier stands still")
				w.Pause(long)
				s.begun = max(s.begun, s.World.Elapsed()+long)
			}
			for i, w := range a.all {
				if w.Over && w.Err != nil && !s.excused(w.Err) && !errors.Is(w.Err, context.Canceled) {
					s.fail("I10", "%s ended by itself: %v", w.Name(), w.Err)
				}
				if w.Over || w.Dead() {
					a.hire(i)
				}
			}
		}
	})
}

// hire starts one.
func (a *appliers) hire(i int) {
	s := a.r.s
	a.hired++
	w := &Worker{Process: s.World.NewProcess(fmt.Sprintf("applier%d", a.hired)), done: s.World.NewEvent()}
	stop, cancel := context.WithCancelCause(w.Context())
	w.stop, a.all[i] = cancel, w
	hash := s.hash
	w.Go("main", func() {
		w.Err = a.run(stop, w.Name(), hash)
		w.Over = true
		s.World.Tracef("%s ends: %v", w.Name(), w.Err)
		w.done.Set()
	})
}

func (a *appliers) run(ctx context.Context, name, hash string) error {
	s := a.r.s
	var ledger *checkpoint.Ledger
	for {
		var err error
		ledger, err = checkpoint.Open(ctx, s.Store(), "default", checkpoint.Options{Worker: name, ID: fmt.Sprintf("ledger-%d", s.World.Steps()), Lease: s.Lease})
		if err == nil {
			break
		}
		if err := task.Sleep(ctx, time.Second); err != nil {
			return nil
		}
	}
	target := model.Target{Bigtable: s.Target}
	return pipeline.ApplyTopic(ctx, pipeline.ApplyOptions{
		Ledger: ledger, Subscription: a.subscription, Timing: s.Timing, Pulls: 2, Pull: 7, Held: 40,
		Tables: []pipeline.Table{{Mapping: s.Mapping, MappingHash: hash}},
		Writer: sink.NewWriter(sink.Options{Table: target, Rows: target, Parking: sink.NewParking(target, "default"), InFlight: 16, MaxImageAge: s.MaxImageAge,
			OnBadItem: s.Policy.onBadItem, MaxParked: s.Policy.maxParked}),
		Events: pipeline.Events{Retry: func(_, step string, _ time.Duration, err error) { s.World.Tracef("%s: %v", step, err) }},
	})
}

func (a *appliers) peace() {
	a.subscription.Twice, a.subscription.Forget, a.subscription.Fail = 0, 0, 0
}

// noted: what an applier notes as applied is, or is parked (I3).
func (a *appliers) noted(key string, after *model.Row) {
	s := a.r.s
	if !strings.HasPrefix(key, "default/applied/"+s.Source.Name+"/") {
		return
	}
	is := recordOf[struct {
		Tracks []checkpoint.Applied `json:"tracks"`
	}](after)
	for _, t := range is.Tracks {
		for n, messages := range a.r.numbers {
			if n.generation != t.Generation || n.label != t.Label || n.shard != t.Shard {
				continue
			}
			for _, run := range t.Runs {
				for number := run.From; number <= run.To; number++ {
					c, ok := messages[number]
					if !ok {
						s.fail("I3", "message %d of %s is noted, and nobody has published it", number, n.shard)
						return
					}
					a.checkWritten(c)
				}
			}
		}
	}
}

// unsettled says what of the topic is not known to be applied; "" if all is.
func (a *appliers) unsettled() string {
	s := a.r.s
	ledger, err := s.Ledger(s.ctx)
	if err != nil {
		return err.Error()
	}
	merged, err := ledger.Merged(s.ctx, s.Source.Name)
	if err != nil {
		return err.Error()
	}
	for _, shard := range checkpoint.Unapplied(s.State(), s.Shards(), merged) {
		n, _ := shard.Behind(merged)
		return fmt.Sprintf("%d messages of shard %s are not known to be applied; %d in the subscription", n, shard.ID, a.subscription.Backlog())
	}
	return ""
}

// checkWritten: the rows of a message's image hold its version, or a higher one.
func (a *appliers) checkWritten(c relay.Change) {
	s := a.r.s
	image := c.New
	if !image.Exists() {
		image = c.Old
	}
	aged := s.TombstoneAge > 0 && s.World.Now().Sub(c.Time) > s.TombstoneAge
	if c.Omitted != "" || c.Expired && s.Outlives || aged || !image.Exists() || s.isSetBack() {
		return
	}
	rows, err := s.Mapping.Addresses(image)
	if err != nil {
		return // it is parked
	}
	for _, row := range rows {
		if heldIn(s.Target.Row(row.Table, row.Row), versionColumn(row.Owner)) < string(c.Version()) {
			s.fail("I3", "message %d of %s is noted as applied, and is not: %s", c.Number, c.Shard, c.Version())
		}
	}
}
