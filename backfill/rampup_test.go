package backfill

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// The rate begins at what the nodes certainly accept, doubles every minute, and ends as no limit. A
// clock that is behind does not lower it.
func TestRampUp(t *testing.T) {
	for _, c := range []struct {
		elapsed time.Duration
		nodes   int
		want    float64
	}{
		{0, 3, 30_000}, {time.Minute, 3, 60_000}, {2 * time.Minute, 1, 40_000}, {-time.Hour, 2, 20_000}, {0, 0, 10_000},
		{9 * time.Minute, 1, 5_120_000}, {10 * time.Minute, 1, 0}, {time.Hour, 50, 0},
	} {
		if got := RampUp(c.elapsed, c.nodes); got != c.want {
			t.Errorf("%s, %d nodes: %.0f rows per second, want %.0f", c.elapsed, c.nodes, got, c.want)
		}
	}
	for at, last := time.Duration(0), 0.0; at < rampEnds; at += time.Second {
		rate := RampUp(at, 1)
		if rate < last {
			t.Errorf("the rate falls at %s", at)
		}
		last = rate
	}
}

// A load that ramps up pays for its rows at the rate of the moment, beside the limit of an operator.
// Only the wait for that limit counts as one.
func TestALoadRampsUpBesideItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, limits := context.Background(), NewLimits(0, 0)
		began := task.Mono(ctx)
		take := func(rows int) (waited, took time.Duration) {
			from := task.Mono(ctx)
			waited, _, err := limits.Take(ctx, ctx, rows, 0)
			if err != nil {
				t.Fatal(err)
			}
			return waited, task.Mono(ctx) - from
		}
		rows := 0
		for task.Mono(ctx)-began < 3*time.Minute {
			limits.SetRamp(ctx, RampUp(task.Mono(ctx)-began, 1))
			if waited, _ := take(5000); waited != 0 {
				t.Fatalf("it waited %s for a limit that nobody set", waited)
			}
			rows += 5000
		}
		// The integral of 10,000 · 2^t over three minutes.
		if want := 6_060_000; rows < want*95/100 || rows > want*105/100 {
			t.Errorf("%d rows in three minutes, want about %d", rows, want)
		}
		limits.SetRamp(ctx, 0)
		if _, took := take(1 << 20); took != 0 {
			t.Errorf("after the ramp-up it waited %s", took)
		}
		limits = NewLimits(100, 0)
		limits.SetRamp(ctx, 1000)
		if waited, took := take(1100); took.Round(time.Millisecond) != 10*time.Second || took-waited > 200*time.Millisecond {
			t.Errorf("an operator's lower limit: it took %s, %s of it waiting", took, waited)
		}
	})
}
