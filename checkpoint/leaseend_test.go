package checkpoint_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A lease ends when it can no longer be trusted. That is after its duration less the margin,
// counted from when the last successful renewal was sent, whatever happens to later renewals.
func TestLeaseEndsOnTime(t *testing.T) {
	const margin = lease / 5
	for name, outage := range map[string]func(ctx context.Context) error{
		"no answers":     func(ctx context.Context) error { return task.NewEvent(ctx).Wait(ctx) },
		"errors at once": func(context.Context) error { return errNoAnswer },
		"errors late": func(ctx context.Context) error {
			return errors.Join(errNoAnswer, task.Sleep(ctx, 6500*time.Millisecond))
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtually(t, func(ctx context.Context, p *place) {
				ma, a := p.worker("a")
				create(t, ctx, a, shard("s", ""))
				held := take(t, ma.Context(), a, "s")
				keep(ma, held)
				p.sleep(ctx, time.Minute+time.Second) // renewed every 5 s, last at 60 s
				if held.Context().Err() != nil {
					t.Fatal(context.Cause(held.Context()))
				}
				p.store.OnSwap = func(ctx context.Context, _ string, _ func() bool) (bool, error) {
					return false, outage(ctx)
				}
				_ = task.NewEvent(ctx).Wait(held.Context())
				if ended := p.since(); ended != time.Minute+lease-margin {
					t.Errorf("ended after %s", ended)
				}
				if !errors.Is(context.Cause(held.Context()), checkpoint.ErrLeaseLost) {
					t.Error(context.Cause(held.Context()))
				}
			})
		})
	}
}

// A slow write counts from when it was sent, because other workers may take over one lease later.
func TestLeaseIsTrustedFromWhenItWasSent(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		ma, a := p.worker("a")
		create(t, ctx, a, shard("s", ""))
		p.store.OnSwap = func(ctx context.Context, _ string, execute func() bool) (bool, error) {
			done := execute()
			return done, task.Sleep(ctx, 11*time.Second)
		}
		p.store.OnRead = func(ctx context.Context, _ string) error { return context.Cause(ctx) }
		held := take(t, ma.Context(), a, "s")
		keep(ma, held)
		_ = task.NewEvent(ctx).Wait(held.Context())
		if ended := p.since(); ended != 12*time.Second {
			t.Errorf("ended after %s", ended)
		}
	})
}

// A write that finds another counter ends the lease immediately, not only when its time is over.
// After that the lease sends the store no request.
func TestLeaseEndsWhenSomebodyElseWrote(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, a := p.worker("a")
		_, b := p.worker("b")
		create(t, ctx, a, shard("s", ""))
		held := take(t, ctx, a, "s")
		take(t, ctx, b, "s")
		if held.Context().Err() != nil {
			t.Fatal("it ended before it could know")
		}
		if err := held.Commit(ctx, at(1)); !errors.Is(err, checkpoint.ErrLeaseLost) || !errors.Is(context.Cause(held.Context()), checkpoint.ErrLeaseLost) {
			t.Errorf("commit: %v, lease: %v", err, context.Cause(held.Context()))
		}
		p.store.OnSwap = func(context.Context, string, func() bool) (bool, error) {
			t.Error("a lost lease writes")
			return false, nil
		}
		if err := held.Commit(ctx, at(2)); !errors.Is(err, checkpoint.ErrLeaseLost) {
			t.Error(err)
		}
	})
}

func TestCommitsRenew(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		ma, a := p.worker("a")
		create(t, ctx, a, shard("s", ""))
		held := take(t, ma.Context(), a, "s")
		keep(ma, held)
		before := row(t, ctx, a, "s").Counter
		const commits = 120
		for n := range commits {
			p.sleep(ctx, 900*time.Millisecond)
			check(t, held.Commit(ma.Context(), at(n)))
		}
		if wrote := row(t, ctx, a, "s").Counter - before; wrote != commits || held.Context().Err() != nil {
			t.Errorf("%d writes for %d commits, %v", wrote, commits, context.Cause(held.Context()))
		}
	})
}

// Offered progress is part of the next write, whichever that is, and of no later one, so a commit
// is not undone.
func TestOffersAreWrittenWithTheNextWrite(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, l := p.worker("a")
		create(t, ctx, l, shard("s", ""))
		lease := take(t, ctx, l, "s")
		stands := func(want checkpoint.Progress) {
			if got := lease.Shard().Position; got != want.Position.After {
				t.Errorf("at %s instead of %s", got, want.Position.After)
			}
		}
		lease.Offer(at(1))
		lease.Offer(at(2))
		stands(checkpoint.Progress{})
		check(t, lease.Renew(ctx))
		stands(at(2))
		lease.Offer(at(3))
		check(t, lease.Commit(ctx, at(4)))
		check(t, lease.Renew(ctx))
		stands(at(4))
	})
}
