package stream

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

const listedWithin = 2 * time.Minute

// passes makes quick passes, one each two seconds, for a time.
func passes(t *testing.T, ctx context.Context, r *Reconciler, d time.Duration) {
	t.Helper()
	for end := task.Mono(ctx) + d; task.Mono(ctx) < end; {
		if err := r.quickPass(engine.Until(ctx)); err != nil {
			t.Error(err)
		}
		_ = task.Sleep(ctx, 2*time.Second)
	}
}

// A shard is complete once a listing that began two minutes after its end was found has shown its
// children. A split lists its children one after the other, and the second one comes late. A new
// coordinator waits again. A shard that is read, settles or is lost is not marked.
func TestH115_AShardIsCompleteOnceItsChildrenAreListed(t *testing.T) {
	stream := &enginetest.PagedStream{Pages: [][]cdc.Shard{{{ID: "first", Parent: "ended"}}}}
	enginetest.Listed(t, stream, func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) {
		k.Ledger.Heard(ctx, task.Now(ctx))
		k.Timing.Listed = listedWithin
		now := k.Ledger.ServiceTime(ctx)
		knows(t, ctx, k,
			checkpoint.Shard{ID: "ended", State: checkpoint.Done, Hop: 1, Generation: 1, Began: 1, DoneAt: now},
			checkpoint.Shard{ID: "settles", State: checkpoint.Reading, Owner: "w", Hop: 1, Generation: 1, Began: 1, EndedAt: now},
			checkpoint.Shard{ID: "reads", State: checkpoint.Reading, Owner: "w", Hop: 1, Generation: 1, Began: 1})
		passes(t, ctx, reconcilerOf(k), listedWithin-10*time.Second)
		if rows := rowsOf(t, ctx, k); rows["first"].ID == "" || rows["ended"].Complete {
			t.Errorf("before the bound: %+v", rows["ended"])
		}
		stream.Pages[0] = append(stream.Pages[0], cdc.Shard{ID: "second", Parent: "ended"})
		k.Reset() // another coordinator, which has not seen when the shard ended
		passes(t, ctx, reconcilerOf(k), listedWithin-10*time.Second)
		if rows := rowsOf(t, ctx, k); rows["ended"].Complete {
			t.Errorf("a new coordinator did not wait: %+v", rows["ended"])
		}
		asked := len(stream.Asked)
		passes(t, ctx, reconcilerOf(k), 20*time.Second)
		rows := rowsOf(t, ctx, k)
		if !rows["ended"].Complete || rows["second"].Parent != "ended" {
			t.Errorf("after the bound: %+v, %+v", rows["ended"], rows["second"])
		}
		if rows["settles"].Complete || rows["reads"].Complete {
			t.Errorf("%+v, %+v", rows["settles"], rows["reads"])
		}
		// "settles" is a leaf, which is asked for in each pass.
		if n := len(stream.Asked) - asked; n > 11 {
			t.Errorf("%d listings in ten passes", n)
		}
	})
}

// The listing begins after the bound: what ended while it was made is not marked by it.
func TestH115_AListingThatBeganTooEarlyCompletesNothing(t *testing.T) {
	l := lineage{}
	enginetest.Listed(t, &enginetest.PagedStream{Pages: [][]cdc.Shard{nil}}, func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) {
		k.Timing.Listed = listedWithin
		r := reconcilerOf(k)
		v := engine.View{State: state, Shards: []checkpoint.Shard{{ID: "a", Label: "label", State: checkpoint.Done}}}
		for _, step := range []struct {
			wait time.Duration
			due  int
		}{{0, 0}, {listedWithin - time.Second, 0}, {time.Second, 1}} {
			_ = task.Sleep(ctx, step.wait)
			if l = r.lineage(ctx, v, time.Time{}); len(l.due) != step.due {
				t.Errorf("%s later: %+v", step.wait, l)
			}
		}
		v.Shards = nil
		r.lineage(ctx, v, time.Time{})
		if len(r.ends) != 0 {
			t.Errorf("it still remembers %v", r.ends)
		}
	})
}

// Many shards that are due cost one listing of the whole stream, and are marked by it.
func TestManyShardsAreCompletedByOneListing(t *testing.T) {
	stream := &enginetest.PagedStream{Pages: [][]cdc.Shard{nil}}
	enginetest.Listed(t, stream, func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) {
		k.Ledger.Heard(ctx, task.Now(ctx))
		now := k.Ledger.ServiceTime(ctx)
		for i := range 40 {
			knows(t, ctx, k, checkpoint.Shard{ID: fmt.Sprint("s", i), Parent: fmt.Sprint("s", i-1), State: checkpoint.Done, Hop: uint32(i + 1), Generation: 1, Began: 1,
				DoneAt: now.Add(-30 * time.Hour)})
		}
		k.Timing.Listed = listedWithin
		passes(t, ctx, reconcilerOf(k), listedWithin+10*time.Second)
		for id, s := range rowsOf(t, ctx, k) {
			if !s.Complete {
				t.Errorf("%s is %+v", id, s)
			}
		}
		if len(stream.Asked) != 1 {
			t.Errorf("%d listings", len(stream.Asked))
		}
	})
}
