package checkpoint_test

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// TestSign: a lease tells who holds it, when it was last written, and what keeps its holder from getting on; a row that nobody
// holds tells none of that.
func TestSign(t *testing.T) {
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
		progress.Rate = 3 // of one that is gone without a word
		check(t, take(t, ctx, l, "s").Commit(ctx, progress))
		_, b := p.worker("b")
		p.takeWhenFree(ctx, b, "s")
		if got := row(t, ctx, l, "s"); got.Rate != 0 || got.Applied != 5 {
			t.Errorf("taken from one that is gone: %+v", got)
		}
	})
}

// TestRateOfAShardThatNobodyReads: whatever ends the reading of a shard, it has no rate after that, which would be told for as long as its row stays.
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

// TestSignOfTheSeat: the same for the keeper's seat, with how a load gets on.
func TestSignOfTheSeat(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		about := checkpoint.About{Host: "node-7", Version: "1.2.3"}
		l, err := checkpoint.Open(p.world.NewProcess("a").Context(), p.store, "p", checkpoint.Options{Worker: "a", ID: "l", Lease: lease, About: about})
		check(t, err)
		seat, err := l.KeeperLease(ctx, source)
		check(t, err)
		k, err := l.TakeKeeperLease(ctx, seat)
		check(t, err)
		if seat, err = l.KeeperLease(ctx, source); err != nil || seat.Sign() != (checkpoint.Heartbeat{WrittenAt: begin, Holder: about}) {
			t.Errorf("taken: %+v, %v", seat.Sign(), err)
		}
		pace := checkpoint.Pace{At: begin, Rate: 7, Throttled: []checkpoint.Throttled{{Reason: "rows per second", Seconds: 3, Since: begin, Last: begin}}}
		check(t, k.SaveScan(ctx, []byte(`{"items":1}`), pace))
		trouble := checkpoint.Trouble{Step: "copy", Cause: "DynamoDB: denied", Since: begin}
		k.Note(trouble)
		check(t, k.SaveScan(ctx, []byte(`{"items":1}`), pace))
		seat, err = l.KeeperLease(ctx, source)
		check(t, err)
		if seat.Sign().Trouble != trouble {
			t.Errorf("%+v", seat.Sign())
		}
		if seat.Owner() != "a" || seat.Pace().Rate != 7 || len(seat.Pace().Throttled) != 1 || string(seat.Scan()) != `{"items":1}` || !seat.Sign().WrittenAt.Equal(begin) {
			t.Errorf("%+v %+v", seat.Pace(), seat.Sign())
		}
		check(t, k.SaveScan(ctx, []byte(`{"items":2}`), pace))
		if got := string(k.Scan()); got != `{"items":2}` {
			t.Errorf("saved twice, it is %s", got)
		}
		check(t, k.Release(ctx))
		if seat, err = l.KeeperLease(ctx, source); err != nil || seat.Owner() != "" || seat.Sign() != (checkpoint.Heartbeat{WrittenAt: begin}) {
			t.Errorf("released: %+v, %v", seat.Sign(), err)
		}
	})
}
