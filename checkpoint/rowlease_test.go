package checkpoint_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A write whose outcome is learned long after it was sent does not renew the lease from then on.
// Other workers count from when it took place, and would take the shard from a worker that still
// writes.
func TestH44_SettledLateIsTrustedFromWhenItWasSent(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		ma, a := p.worker("a")
		create(t, ctx, a, shard("s", ""))
		held := take(t, ma.Context(), a, "s")
		swaps := 0
		p.store.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) {
			// The first takes place, the second repeats it, and later ones do not.
			if swaps++; swaps > 2 {
				return false, errNoAnswer
			}
			execute()
			return false, errNoAnswer
		}
		p.store.OnRead = func(context.Context, string) error { p.store.OnRead = nil; return errNoAnswer }
		if err := held.Commit(ctx, at(10)); !errors.Is(err, errNoAnswer) {
			t.Fatal(err)
		}
		p.sleep(ctx, 10*time.Second)
		if err := held.Commit(ctx, at(20)); !errors.Is(err, errNoAnswer) {
			t.Fatal(err)
		}
		if got := held.Shard().Position; got != at(10).Position.After {
			t.Fatalf("the first commit is not settled: %s", got)
		}
		keep(ma, held)
		_ = task.NewEvent(ctx).Wait(held.Context())
		if ended := p.since(); ended != 12*time.Second {
			t.Errorf("ended after %s", ended)
		}
	})
}
