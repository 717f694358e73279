package checkpoint_test

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// The time of a shard's last read stays known whatever the reader's clock does. The clock may jump,
// renewals may continue without a read, or another worker with another clock may take the shard.
func TestWhenAShardWasReadSurvivesClocksThatJump(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		machine, a := p.worker("a")
		create(t, ctx, a)
		check(t, a.CreateShard(ctx, checkpoint.Shard{Source: source, Label: label, ID: "s", State: checkpoint.Waiting}))
		read := func(when string, want time.Time) checkpoint.Shard {
			t.Helper()
			shards, err := a.Shards(ctx, source)
			check(t, err)
			if at := shards[0].ReadTime(); at.Sub(want).Abs() > time.Second {
				t.Errorf("%s: read at %s, want %s", when, at.Sub(begin), want.Sub(begin))
			}
			return shards[0]
		}
		heard := func(l *checkpoint.Ledger, ctx context.Context) { l.Heard(ctx, p.world.Now()) }
		machine.Skew(40 * time.Minute)
		heard(a, machine.Context())
		lease, err := a.Take(machine.Context(), read("never", time.Time{}), nil)
		check(t, err)
		at := a.Now(machine.Context())
		check(t, lease.Commit(machine.Context(), checkpoint.Progress{Position: cdc.Position{}, ReadAt: at, CaughtUp: true}))
		read("by a clock that is ahead", p.world.Now())
		for _, skew := range []time.Duration{0, -2 * time.Hour, 25 * time.Minute} {
			machine.Skew(skew)
			heard(a, machine.Context())
			p.sleep(ctx, time.Second)
			check(t, lease.Renew(machine.Context()))
			read("renewed after a jump", at)
		}
		check(t, lease.Release(machine.Context()))
		free := read("released", at)
		other, b := p.worker("b")
		other.Skew(-time.Hour)
		heard(b, other.Context())
		taken, err := b.Take(other.Context(), free, nil)
		check(t, err)
		read("taken by another", at)
		if next := taken.Shard(); next.Progress().ReadAt.Sub(at).Abs() > time.Second {
			t.Errorf("the next owner goes on from %s", next.Progress().ReadAt.Sub(begin))
		}
	})
}
