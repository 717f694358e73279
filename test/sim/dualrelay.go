package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// dualRelay is a run with dual writes whose workers publish, and the processes that apply the
// topic. They are killed, stopped and paused with messages in flight.
type dualRelay struct {
	d            *dualRun
	rng          *rand.Rand
	topic        *model.Topic
	subscription *model.Subscription
	appliers     *crew
}

func newDualRelay(seed uint64, d *dualRun) *dualRelay {
	r := &dualRelay{d: d, rng: stream(seed, "dual relay"), topic: model.NewTopic(d.World), subscription: model.NewSubscription(d.World)}
	r.subscription.Kept = checkpoint.LongestKept
	r.subscription.Twice, r.subscription.Forget, r.subscription.Fail = 0.1*r.rng.Float64(), 0.1*r.rng.Float64(), 0.1*r.rng.Float64()
	r.topic.Stored = func(m relay.Message) { r.subscription.Take(m) }
	r.appliers = newCrew(d.World, "applier", func(name string) *Worker { return d.StartApplier(name, "h1", r.subscription, time.Second) })
	d.FromTopic, d.Late = true, d.late
	if d.room > 0 { // a topic cannot be read again from a position: changes without room wait in it
		d.SettleBytes = 300_000 + 20*d.room
	}
	return r
}

// play starts the processes and injects their faults.
func (r *dualRelay) play(ctx context.Context) {
	r.appliers.hire(1 + r.rng.IntN(2))
	for task.Sleep(ctx, r.d.World.UpTo(20*time.Minute)) == nil && r.d.World.Elapsed() < r.d.length {
		switch w := r.appliers.all[r.rng.IntN(len(r.appliers.all))]; r.rng.IntN(3) {
		case 0:
			r.d.World.Inject("applier killed")
			r.appliers.kill(w)
		case 1:
			r.d.World.Inject("applier stopped")
			r.appliers.stop(w)
		case 2:
			r.d.World.Inject("applier paused")
			r.appliers.pause(w, r.d.World.UpTo(15*time.Minute))
		}
	}
}

// quiet waits until all messages are confirmed as applied.
func (r *dualRelay) quiet(ctx context.Context) error {
	ledger, err := r.d.Ledger(ctx)
	if err != nil {
		return err
	}
	merged, err := ledger.Merged(ctx, r.d.Mapping.Source)
	if err != nil {
		return err
	}
	for _, shard := range checkpoint.Unapplied(r.d.State(), r.d.Shards(), merged) {
		n, _ := shard.Behind(merged)
		return fmt.Errorf("%d messages of shard %s are not known to be applied; %d in the subscription", n, shard.ID, r.subscription.Backlog())
	}
	return nil
}
