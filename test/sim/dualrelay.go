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

// dualRelay is a run with dual writes whose workers publish, with the processes that apply what the
// topic brings. They are killed, stopped and paused with messages in their hands.
type dualRelay struct {
	d            *dualRun
	rng          *rand.Rand
	topic        *model.Topic
	subscription *model.Subscription
	appliers     []*Worker
	hired        int
}

func newDualRelay(seed uint64, d *dualRun) *dualRelay {
	r := &dualRelay{d: d, rng: stream(seed, "dual relay"), topic: model.NewTopic(d.World), subscription: model.NewSubscription(d.World)}
	r.subscription.Kept = checkpoint.LongestKept
	r.subscription.Twice, r.subscription.Forget, r.subscription.Fail = 0.1*r.rng.Float64(), 0.1*r.rng.Float64(), 0.1*r.rng.Float64()
	r.topic.Stored = func(m relay.Message) { r.subscription.Take(m) }
	d.FromTopic, d.Late = true, d.late
	if d.room > 0 { // a topic cannot be read again from a place: what does not find room waits in it
		d.SettleBytes = 300_000 + 20*d.room
	}
	return r
}

func (r *dualRelay) hire() {
	r.hired++
	r.appliers = append(r.appliers, r.d.StartApplier(fmt.Sprintf("applier%d", r.hired), "h1", r.subscription, time.Second))
}

// play starts the processes, and does to them what happens to processes.
func (r *dualRelay) play(ctx context.Context) {
	for range 1 + r.rng.IntN(2) {
		r.hire()
	}
	for task.Sleep(ctx, r.d.World.UpTo(20*time.Minute)) == nil && r.d.World.Elapsed() < r.d.length {
		i := r.rng.IntN(len(r.appliers))
		switch w := r.appliers[i]; r.rng.IntN(3) {
		case 0:
			r.d.World.Inject("applier killed")
			w.Kill()
			r.appliers[i] = r.appliers[len(r.appliers)-1]
			r.appliers = r.appliers[:len(r.appliers)-1]
			r.hire()
		case 1:
			r.d.World.Inject("applier stopped")
			r.d.World.Go("stop", func(ctx context.Context) { _ = w.Stop(ctx) })
			r.appliers[i] = r.appliers[len(r.appliers)-1]
			r.appliers = r.appliers[:len(r.appliers)-1]
			r.hire()
		case 2:
			r.d.World.Inject("applier paused")
			w.Pause(r.d.World.UpTo(15 * time.Minute))
		}
	}
}

// quiet: all messages are known to be applied.
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
