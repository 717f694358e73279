package follow

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// heldBy are so many shards of each worker.
func heldBy(counts map[string]int) (held []checkpoint.Available) {
	for worker, n := range counts {
		for range n {
			held = append(held, checkpoint.Available{Shard: &checkpoint.Shard{Owner: worker}})
		}
	}
	return held
}

// What others hold of a table that is left here, because it was dropped, does not count any more:
// it is not seen when it ends.
func TestSharesOfATableThatIsLeft(t *testing.T) {
	ledger, err := checkpoint.Open(t.Context(), &checkpointtest.Memory{}, "left", checkpoint.Options{Worker: "me", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	left := assignerOf(enginetest.NewRig(ledger, engine.Spec{}))
	left.shares.See("Orders", map[string]int{"a": 8})
	drain, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("left"))
	if err := left.Assign(engine.Lifecycle{Drain: drain, Work: t.Context()}, func() {}); err != nil {
		t.Fatal(err)
	}
	if len(left.shares.Tables) != 0 {
		t.Errorf("what is known of others: %v", left.shares.Tables)
	}
}

// unread is a stream that cannot be read, and counts who tries.
type unread struct {
	cdc.Source
	tries int
}

func (u *unread) Seek(context.Context, string, cdc.Position) (cdc.Iterator, error) {
	u.tries++
	return "", &cdc.Error{Op: "GetShardIterator", Reason: cdc.Denied, Err: errors.New("no")}
}

// One shard is taken over in a pass by the whole process, whichever of its tables looks, and
// whether that succeeds or not.
func TestOneTryInAPass(t *testing.T) {
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) {
		source := &unread{}
		k.Open, k.Timing = func(string) cdc.Source { return source }, engine.Timing{}.OrDefault(k.Ledger.Lease())
		first, mine := assignerOf(k), engine.NewHoldings(engine.Until(ctx), func() {})
		other := *first
		other.Common = &engine.Common{Retrier: &engine.Retrier{Source: "Users", Events: k.Events}, Ledger: k.Ledger, Timing: k.Timing}
		pass := func(after time.Duration, want int) {
			if err := task.Sleep(ctx, after); err != nil {
				t.Error(err)
			}
			for _, a := range []*Assigner{first, &other} {
				if err := a.even(mine, heldBy(map[string]int{"a": 8}), &state); err != nil {
					t.Error(err)
				}
			}
			if source.tries != want {
				t.Errorf("%d tries, want %d", source.tries, want)
			}
		}
		pass(time.Second, 0) // they are uneven from now on
		pass(k.Ledger.Lease(), 1)
		pass(k.Timing.Pass/2, 1)
		pass(k.Timing.Pass/2, 2)
		if err := mine.Tasks.Wait(); err != nil {
			t.Error(err)
		}
	})
}
