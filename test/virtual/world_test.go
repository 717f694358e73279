package virtual

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

var start = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// fanOut runs a group of tasks with a limit, timeouts, a wakeup and a kill, and returns what was
// observed.
func fanOut(t *testing.T, seed uint64) (string, string) {
	t.Helper()
	w := NewWorld(seed, start, true)
	var seen string
	err := w.Run(time.Hour, func(ctx context.Context) {
		worker := w.NewProcess("a")
		worker.Go("main", func() {
			g := task.NewGroup(worker.Context(), 3)
			for i := range 6 {
				g.Go(fmt.Sprint("t", i), func(ctx context.Context) error {
					if err := task.Sleep(ctx, time.Second); err != nil {
						return err
					}
					seen += fmt.Sprint(i)
					return nil
				})
			}
			if err := g.Wait(); err != nil {
				seen += err.Error()
			}
			seen += "."
		})
		_ = task.Sleep(ctx, 10*time.Second)
		victim := w.NewProcess("b")
		victim.Go("main", func() {
			defer func() { seen += "unwound" }()
			_ = task.Sleep(victim.Context(), time.Minute)
			seen += "never"
		})
		_ = task.Sleep(ctx, time.Second)
		victim.Kill()
		timed, cancel := task.WithTimeout(ctx, time.Second)
		defer cancel()
		err := task.NewEvent(ctx).Wait(timed)
		seen += fmt.Sprint(errors.Is(err, context.DeadlineExceeded), w.Now().Sub(start))
	})
	if err != nil {
		t.Fatal(err)
	}
	return seen, w.Trace()
}

func TestSameSeedSameTrace(t *testing.T) {
	orders := map[string]bool{}
	for seed := range uint64(50) {
		seen, trace := fanOut(t, seed)
		again, traceAgain := fanOut(t, seed)
		if seen != again || trace != traceAgain {
			t.Fatalf("seed %d is not repeatable:\n%s\n%s", seed, trace, traceAgain)
		}
		orders[seen] = true
	}
	if len(orders) < 5 {
		t.Fatalf("50 seeds gave only %d executions", len(orders))
	}
}

func TestStuckIsNoticed(t *testing.T) {
	w := NewWorld(1, start, false)
	var stuck *Stuck
	err := w.Run(time.Hour, func(ctx context.Context) { _ = task.NewEvent(ctx).Wait(ctx) })
	if !errors.As(err, &stuck) {
		t.Fatalf("got %v", err)
	}
}

func TestPausedProcessGoesOnLater(t *testing.T) {
	w := NewWorld(1, start, false)
	var woke time.Duration
	err := w.Run(time.Hour, func(ctx context.Context) {
		p := w.NewProcess("p")
		p.Go("sleeper", func() {
			_ = task.Sleep(p.Context(), time.Second)
			woke = w.now
		})
		_ = task.Sleep(ctx, 500*time.Millisecond)
		p.Pause(time.Minute)
		_ = task.Sleep(ctx, 5*time.Minute)
	})
	if err != nil || woke != time.Minute+500*time.Millisecond {
		t.Fatalf("woke at %s, %v", woke, err)
	}
}
