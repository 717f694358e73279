package status_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// asked plays a driver whose clock is off by skew, and that ends without a word after some time, 0: at
// once. Ask is called where clocks are right, a while after that.
func asked(t *testing.T, skew, lease, lives, later time.Duration, ask func(ctx context.Context, l *checkpoint.Ledger, store *checkpointtest.Memory)) {
	t.Helper()
	world, store := virtual.NewWorld(1, time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC), false), &checkpointtest.Memory{}
	open := func(ctx context.Context, worker string) *checkpoint.Ledger {
		l, err := checkpoint.Open(ctx, store, "p", checkpoint.Options{Worker: worker, ID: "ledger", Lease: lease})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	err := world.Run(time.Hour, func(ctx context.Context) {
		l := open(ctx, "operator")
		p := world.NewProcess("driver")
		p.Skew(skew)
		p.Go("drive", func() {
			theirs := open(p.Context(), "driver")
			seen, err := theirs.CoordinatorLease(p.Context(), checkpoint.CutoverLease(""))
			if err != nil {
				t.Error(err)
			}
			held, err := theirs.TakeCoordinatorLease(p.Context(), seen)
			if err != nil {
				t.Error(err)
				return
			}
			if lives > 0 {
				_ = held.Keep()
			}
		})
		_ = task.Sleep(ctx, max(lives, time.Second))
		if later > 0 {
			p.Kill()
		}
		_ = task.Sleep(ctx, later)
		ask(ctx, l, store)
		p.Kill()
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Who drives is told by renewals on one clock, however wrong the driver's is.
func TestADriverIsKnownByItsRenewals(t *testing.T) {
	for _, skew := range []time.Duration{-10 * time.Minute, -time.Minute, 0, time.Minute, 10 * time.Minute} {
		for name, c := range map[string]struct {
			lives, dead time.Duration
			want        string
			within      time.Duration
		}{
			"lives":              {time.Minute, 0, "driver", 6 * time.Second},
			"has just died":      {time.Minute, time.Millisecond, "", 9 * time.Second},
			"is long dead":       {time.Minute, 9*time.Minute + 30*time.Second, "", 9 * time.Second},
			"died as it took it": {0, 10 * time.Minute, "", 9 * time.Second},
		} {
			asked(t, skew, 15*time.Second, c.lives, c.dead, func(ctx context.Context, l *checkpoint.Ledger, _ *checkpointtest.Memory) {
				at := task.Mono(ctx)
				got, err := status.Drives(ctx, l, "", l.NewWatch())
				if took := task.Mono(ctx) - at; err != nil || got != c.want || took > c.within {
					t.Errorf("clock %s, %s: %q after %s, %v", skew, name, got, took, err)
				}
			})
		}
	}
}

// A watch that goes on looks as long as a lease lasts, and answers at once.
func TestADriverIsWatched(t *testing.T) {
	asked(t, 10*time.Minute, 15*time.Second, time.Minute, 0, func(ctx context.Context, l *checkpoint.Ledger, store *checkpointtest.Memory) {
		watch := l.NewWatch()
		for i := range 20 {
			at := task.Mono(ctx)
			if got, err := status.Drives(ctx, l, "", watch); err != nil || got != "driver" || i > 0 && task.Mono(ctx) != at {
				t.Fatalf("look %d: %q after %s, %v", i, got, task.Mono(ctx)-at, err)
			}
			_ = task.Sleep(ctx, 5*time.Second)
		}
		store.OnSwap = func(context.Context, string, func() bool) (bool, error) { return false, errors.New("away") }
		got, looks := "driver", 0
		for ; got != "" && looks < 100; looks++ {
			_ = task.Sleep(ctx, time.Second)
			got, _ = status.Drives(ctx, l, "", watch)
		}
		if looks < 4 || looks > 8 { // its lease is shorter than a worker's
			t.Errorf("a driver that renews no more is missed after %d s", looks)
		}
	})
}

// Where a lease is too long to wait for, its beat is judged; nobody waits for a lease that is free. A
// failure is handed on, and a look that is broken off says who holds the lease.
func TestALookAtADriver(t *testing.T) {
	for dead, want := range map[time.Duration]string{0: "driver", 20 * time.Minute: ""} {
		asked(t, 0, 5*time.Minute, time.Minute, dead, func(ctx context.Context, l *checkpoint.Ledger, _ *checkpointtest.Memory) {
			at := task.Mono(ctx)
			if got, err := status.Drives(ctx, l, "", l.NewWatch()); err != nil || got != want || task.Mono(ctx) != at {
				t.Errorf("dead for %s: %q, %v", dead, got, err)
			}
		})
	}
	asked(t, 0, 15*time.Second, time.Minute, 5*time.Minute, func(ctx context.Context, l *checkpoint.Ledger, store *checkpointtest.Memory) {
		broken, cancel := task.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		if got, err := status.Drives(broken, l, "", l.NewWatch()); err != nil || got != "driver" {
			t.Errorf("broken off: %q, %v", got, err)
		}
		lost := errors.New("lost")
		for first := range 2 {
			reads := 0
			store.OnRead = func(context.Context, string) error {
				if reads++; reads > first {
					return lost
				}
				return nil
			}
			if _, err := status.Drives(ctx, l, "", l.NewWatch()); !errors.Is(err, lost) {
				t.Errorf("read %d: %v", first, err)
			}
		}
	})
	world, store := virtual.NewWorld(1, time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC), false), &checkpointtest.Memory{}
	err := world.Run(time.Hour, func(ctx context.Context) {
		l, err := checkpoint.Open(ctx, store, "p", checkpoint.Options{Worker: "operator", ID: "ledger"})
		if err != nil {
			t.Fatal(err)
		}
		at := world.Elapsed()
		if got, err := status.Drives(ctx, l, "", l.NewWatch()); err != nil || got != "" || world.Elapsed() != at {
			t.Errorf("a lease that nobody holds: %q, %v", got, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
