package sim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// dualCost is the cost of five hours of changes under dual writes.
type dualCost struct {
	requests int
	changes  int
	lag      time.Duration // the longest between a change and its first application
	pending  uint64        // the most changes that waited
}

// costOf plays five hours. At regular times another item changes, while every shard rolls every
// four hours. It measures when each change first reaches the target.
func costOf(t *testing.T, late, every time.Duration, room int64) (c dualCost) {
	t.Helper()
	w := virtual.NewWorld(1, simEpoch, false)
	w.StepLimit = 0
	m := NewMigration(w, 2)
	m.Timing = engine.Timing{Poll: 2 * time.Second}
	count := func(context.Context, string, time.Duration) { c.requests++ }
	m.Writes = sink.Events{Applied: count, Stale: count}
	err := w.Run(40*time.Hour, func(ctx context.Context) {
		m.Start("worker", func(o *engine.Options) {
			o.Tables[0].Late, o.Tables[0].AdoptRows, o.SettleBytes = late, true, room
		})
		if err := m.Until(ctx, time.Hour, func() error {
			if !m.State().Loaded() {
				return fmt.Errorf("not loaded")
			}
			return nil
		}); err != nil {
			t.Error(err)
			return
		}
		began, rolled := w.Elapsed(), w.Elapsed()
		open := map[string]time.Duration{} // by row
		m.Watch = func(table, row string, _, _ *model.Row) {
			if at, is := open[row]; is && table == m.Mapping.Table {
				delete(open, row)
				c.lag = max(c.lag, w.Elapsed()-at)
			}
		}
		c.requests = 0
		for w.Elapsed()-began < 5*time.Hour {
			if w.Elapsed()-rolled >= 4*time.Hour {
				rolled = w.Elapsed()
				for _, id := range m.Source.Stream().Open() {
					m.Source.Stream().Roll(id)
				}
			}
			pk := fmt.Sprintf("k%06d", c.changes)
			m.Source.Put(attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(pk)}, {Name: "sk", Value: attribute.String("s")}, {Name: "v", Value: attribute.String(pk)}}))
			c.changes++
			open[pk+"#s"] = w.Elapsed()
			if task.Sleep(ctx, every) != nil {
				return
			}
			waits := uint64(0)
			for _, s := range m.Shards() {
				waits += s.Settling.Changes
			}
			c.pending = max(c.pending, waits)
		}
		if err := m.Equal(ctx, late+time.Hour); err != nil {
			t.Error(err)
		}
		if len(open) > 0 {
			t.Errorf("%d changes were not seen to reach the target", len(open))
		}
		_ = task.Sleep(ctx, late+time.Minute)
	})
	if err != nil {
		t.Error(err)
	}
	for _, broken := range m.Broken() {
		t.Error(broken)
	}
	return c
}

// Settling costs at most 2.1 times the requests of the guarded path, and delays no lineage. With a
// settle time of ten minutes and shards that roll every four hours, a change reaches the target
// within seconds, even if no waiting change fits into memory and all are read again.
func TestSettlingCostsTwiceAndHoldsNothingUp(t *testing.T) {
	t.Parallel()
	const every = 20 * time.Second
	plain := costOf(t, 0, every, 0)
	for name, room := range map[string]int64{"all is kept": 0, "all is read again": 1} {
		dual := costOf(t, 10*time.Minute, every, room)
		ratio := float64(dual.requests) / float64(plain.requests)
		t.Logf("%s: %d changes, %d requests without dual writes, %d with (%.3f times), at most %d waiting, lag at most %s",
			name, dual.changes, plain.requests, dual.requests, ratio, dual.pending, dual.lag)
		if ratio > 2.1 || ratio < 1.9 {
			t.Errorf("%s: %.3f times the requests", name, ratio)
		}
		if dual.lag >= 5*time.Second {
			t.Errorf("%s: a change was not in the target for %s", name, dual.lag)
		}
		if dual.pending == 0 {
			t.Errorf("%s: nothing waited", name)
		}
	}
}
