package checkpoint_test

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// TestHeartbeat: a lease shows its holder, when it was last written, and why the holder makes no
// progress. A row without a holder shows none of that.
func TestHeartbeat(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		machine := p.world.NewProcess("a")
		about := checkpoint.About{Host: "node-7", Version: "1.2.3"}
		l, err := checkpoint.Open(machine.Context(), p.store, "p", checkpoint.Options{Worker: "a", ID: "l", Lease: lease, About: about})
		check(t, err)
		create(t, ctx, l, shard("s", ""))
		if got := row(t, ctx, l, "s").Heartbeat; got.Holder != (checkpoint.About{}) || !got.WrittenAt.Equal(begin) {
			t.Errorf("created: %+v", got)
		}
		p.sleep(ctx, time.Second)
		held := take(t, ctx, l, "s")
		if got := row(t, ctx, l, "s").Heartbeat; got.Holder != about || !got.WrittenAt.Equal(begin.Add(time.Second)) {
			t.Errorf("taken: %+v", got)
		}
		trouble := checkpoint.Trouble{Step: "read a shard", Cause: "DynamoDB: throttled", Since: begin, Throttled: true}
		held.Note(trouble)
		progress := at(5)
		progress.Applied, progress.Rate = 5, 2.5
		check(t, held.Commit(ctx, progress))
		if got := row(t, ctx, l, "s"); got.Trouble != trouble || got.Applied != 5 || got.Rate != 2.5 {
			t.Errorf("in trouble: %+v", got)
		}
		held.Note(checkpoint.Trouble{})
		check(t, held.Commit(ctx, progress))
		if got := row(t, ctx, l, "s").Trouble; got != (checkpoint.Trouble{}) {
			t.Errorf("out of trouble: %+v", got)
		}
		held.Note(trouble)
		check(t, held.Release(ctx))
		if got := row(t, ctx, l, "s"); got.Holder != (checkpoint.About{}) || got.Trouble != (checkpoint.Trouble{}) || got.Rate != 0 || got.Applied != 5 {
			t.Errorf("released: %+v", got)
		}
		progress.Rate = 3 // of a worker that died
		check(t, take(t, ctx, l, "s").Commit(ctx, progress))
		_, b := p.worker("b")
		p.takeWhenFree(ctx, b, "s")
		if got := row(t, ctx, l, "s"); got.Rate != 0 || got.Applied != 5 {
			t.Errorf("taken from one that is gone: %+v", got)
		}
	})
}

// TestRateOfAShardThatNobodyReads: whatever ends the reading of a shard, its row has no rate after
// that; otherwise the old rate would be shown for as long as the row exists.
func TestRateOfAShardThatNobodyReads(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, l := p.worker("a")
		create(t, ctx, l, shard("done", ""), shard("lost", ""), shard("raised", ""))
		progress := at(5)
		progress.Rate = 2.5
		check(t, take(t, ctx, l, "done").Finish(ctx, progress))
		lost := take(t, ctx, l, "lost")
		check(t, lost.Commit(ctx, progress))
		check(t, lost.Declare(ctx, checkpoint.Trimmed, "trimmed"))
		check(t, take(t, ctx, l, "raised").Commit(ctx, progress))
		_, err := l.Raise(ctx, source, table(t, ctx, l).Generation, trimmed, nil)
		check(t, err)
		for id, s := range rows(t, ctx, l) {
			if s.Owner != "" || s.Rate != 0 || s.Holder != (checkpoint.About{}) {
				t.Errorf("%s: %+v", id, s)
			}
		}
	})
}

// TestHeartbeatOfACoordinator: the same for the coordinator lease, with the pace of a load.
func TestHeartbeatOfACoordinator(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		about := checkpoint.About{Host: "node-7", Version: "1.2.3"}
		l, err := checkpoint.Open(p.world.NewProcess("a").Context(), p.store, "p", checkpoint.Options{Worker: "a", ID: "l", Lease: lease, About: about})
		check(t, err)
		lease, err := l.CoordinatorLease(ctx, source)
		check(t, err)
		k, err := l.TakeCoordinatorLease(ctx, lease)
		check(t, err)
		if lease, err = l.CoordinatorLease(ctx, source); err != nil || lease.Heartbeat() != (checkpoint.Heartbeat{WrittenAt: begin, Holder: about, Reads: checkpoint.Format}) {
			t.Errorf("taken: %+v, %v", lease.Heartbeat(), err)
		}
		pace := checkpoint.Pace{At: begin, Rate: 7, Throttled: []checkpoint.Throttled{{Reason: "rows per second", Seconds: 3, Since: begin, Last: begin}}}
		check(t, k.SavePace(ctx, pace))
		trouble := checkpoint.Trouble{Step: "copy", Cause: "DynamoDB: denied", Since: begin}
		k.Note(trouble)
		check(t, k.SavePace(ctx, pace))
		lease, err = l.CoordinatorLease(ctx, source)
		check(t, err)
		if lease.Heartbeat().Trouble != trouble {
			t.Errorf("%+v", lease.Heartbeat())
		}
		if lease.Owner() != "a" || lease.Pace().Rate != 7 || len(lease.Pace().Throttled) != 1 || !lease.Heartbeat().WrittenAt.Equal(begin) {
			t.Errorf("%+v %+v", lease.Pace(), lease.Heartbeat())
		}
		check(t, k.Release(ctx))
		if lease, err = l.CoordinatorLease(ctx, source); err != nil || lease.Owner() != "" || lease.Heartbeat() != (checkpoint.Heartbeat{WrittenAt: begin}) {
			t.Errorf("released: %+v, %v", lease.Heartbeat(), err)
		}
	})
}
