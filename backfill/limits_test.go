package backfill

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Each limit works on its own. With both, the wait is the longer of the two, not their sum. A burst
// of one second needs no wait.
func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		rows, units       float64 // per second
		read              int
		consumed          float64
		forRows, forUnits time.Duration
	}{
		"none":               {0, 0, 1 << 20, 1e6, 0, 0},
		"rows":               {5, 0, 25, 1e6, 4 * time.Second, 0},
		"units":              {0, 2, 1 << 20, 10, 0, 4 * time.Second},
		"half a unit":        {0, 0.5, 0, 1.5, 0, 2 * time.Second},
		"less than half":     {0, 0.5, 0, 1.1, 0, 2 * time.Second},
		"rows and units":     {1, 1, 3, 2, 2 * time.Second, 0},
		"both, rows longer":  {1, 10, 11, 50, 10 * time.Second, 0},
		"both, units longer": {10, 1, 20, 11, 0, 10 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			l := NewLimits(c.rows, c.units)
			began := task.Mono(ctx)
			forRows, forUnits, err := l.Take(ctx, ctx, c.read, c.consumed)
			took := task.Mono(ctx) - began
			if err != nil || took != c.forRows+c.forUnits || took != forRows+forUnits || (forRows > forUnits) != (c.forRows > c.forUnits) {
				t.Errorf("%s: %s for rows, %s for units, %s in all: %v", name, forRows, forUnits, took, err)
			}
		})
	}
	var none *Limits
	if rows, units, err := none.Take(t.Context(), t.Context(), 1<<30, 1e9); rows+units != 0 || err != nil || none.pageItems(partProgress{}) != 0 {
		t.Errorf("without limits: %s %s %v", rows, units, err)
	}
}

// Both limits are changed while a part waits for them, and take effect within about a second.
func TestLimitsAreChangedDuringAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, l := t.Context(), NewLimits(1, 1)
		g := task.NewGroup(ctx, 0)
		g.Go("operator", func(ctx context.Context) error {
			_ = task.Sleep(ctx, 9500*time.Millisecond)
			l.set(ctx, 100, 0)
			return nil
		})
		began := task.Mono(ctx)
		if _, _, err := l.Take(ctx, ctx, 111, 1e6); err != nil {
			t.Error(err)
		}
		// 11 rows in ten seconds, and the next 100 in one.
		if took := task.Mono(ctx) - began; took < 10*time.Second || took > 12*time.Second {
			t.Errorf("took %s", took)
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestALimitIsLiftedDuringALongWait: under a limit far below a row a second a wait lasts for hours.
// It ends soon after the limit is lifted.
func TestALimitIsLiftedDuringALongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, l := t.Context(), NewLimits(0.001, 0)
		began := time.Now()
		time.AfterFunc(10*time.Minute, func() { l.set(ctx, 0, 0) })
		forRows, _, err := l.Take(ctx, ctx, 4, 0)
		if took := time.Since(began); err != nil || took < 10*time.Minute || took > 10*time.Minute+stretch || forRows != took {
			t.Errorf("waited %s, for rows %s: %v", took, forRows, err)
		}
	})
}

// Units are counted in halves, however the limit is set, and a shared throttle paces rows.
func TestLimitsAreSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, l := t.Context(), NewLimits(0, 1)
		l.SetUnits(ctx, 4)
		if _, forUnits, err := l.Take(ctx, ctx, 0, 13); err != nil || forUnits < 2*time.Second || forUnits > 3*time.Second {
			t.Errorf("13 units at 4 a second took %s: %v", forUnits, err)
		}
		if l.SetUnits(ctx, 0); l.pageItems(partProgress{Items: 1, Units: 100}) != 0 {
			t.Error("a limit that was lifted holds")
		}
		shared := NewThrottle(10)
		if l.UseRows(shared); l.pageItems(partProgress{}) != fewestItemsPerPage {
			t.Error("a shared throttle is not used")
		}
		_, _ = shared.Take(ctx, ctx, 10)
		if forRows, _, err := l.Take(ctx, ctx, 20, 0); err != nil || forRows != 2*time.Second {
			t.Errorf("beside another: %s, %v", forRows, err)
		}
	})
}

// The end of either context ends the wait for a limit.
func TestLimitsLetGo(t *testing.T) {
	for _, drained := range []bool{true, false} {
		ctx, end := context.WithCancel(t.Context())
		end()
		drain, work := t.Context(), ctx
		if drained {
			drain, work = ctx, t.Context()
		}
		if _, _, err := NewLimits(1, 0).Take(drain, work, 100, 0); !errors.Is(err, context.Canceled) {
			t.Errorf("drained %v: %v", drained, err)
		}
	}
}

// All workers together stay within the limit of the load, however many parts each holds.
func TestShare(t *testing.T) {
	for _, c := range []struct {
		limit     float64
		mine, all int
		want      float64
	}{{100, 1, 4, 25}, {100, 3, 4, 75}, {100, 4, 4, 100}, {100, 0, 4, 25}, {100, 0, 0, 100}, {100, 2, 1, 100}, {0, 1, 4, 0}} {
		if got := Share(c.limit, c.mine, c.all); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// A page is about as large as what a part may read in a second.
func TestPagesOfAPart(t *testing.T) {
	known := partProgress{Items: 1000, Units: 500}
	for name, c := range map[string]struct {
		rows, units float64
		parts       int
		at          partProgress
		want        int
	}{
		"without limits":               {0, 0, 1, known, 0},
		"rows":                         {4000, 0, 4, partProgress{}, 1000},
		"few rows":                     {4, 0, 4, partProgress{}, 25},
		"units":                        {0, 400, 4, known, 200},
		"units, at the beginning":      {0, 400, 4, partProgress{}, 25},
		"units, no cost known yet":     {0, 400, 4, partProgress{Items: 1000}, 25},
		"both, units first":            {4000, 400, 4, known, 200},
		"both, rows first":             {400, 400, 4, known, 100},
		"more than a page ever holds":  {0, 1e9, 4, known, 0},
		"before the first one entered": {400, 0, 0, known, 400},
	} {
		l := NewLimits(c.rows, c.units)
		for range c.parts + 1 {
			l.enter()
		}
		l.leave()
		if got := l.pageItems(c.at); got != c.want {
			t.Errorf("%s: %d", name, got)
		}
	}
}
