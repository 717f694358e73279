package backfill

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Concurrent parts share a limit, which an operator changes while they run.
func TestPartsShareALimitThatIsChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, out := newMemory(3000), &target{}
		m.pages = func(uint64) int { return 1000 }
		limits := NewLimits(100, 0)
		var waits [2]time.Duration
		var saved [2]int
		began := task.Mono(t.Context())
		g := task.NewGroup(t.Context(), 0)
		g.Go("operator", func(ctx context.Context) error {
			_ = task.Sleep(ctx, 10*time.Second)
			limits.set(ctx, 1000, 0)
			return nil
		})
		for index := range 2 {
			p := part(m, out, index, 2)
			p.Limits, p.Save = limits, func(context.Context, partProgress) error { saved[index]++; return nil }
			p.Events.Waited = func(rows, _ time.Duration) { waits[index] += rows }
			g.Go("part", func(ctx context.Context) error { _, err := p.run(ctx, partProgress{}); return err })
		}
		err := g.Wait()
		waited, saves := waits[0]+waits[1], saved[0]+saved[1]
		took := task.Mono(t.Context()) - began
		// 10 s at 100 rows a second, then 2,000 rows at 1,000; the bursts and the last pages need
		// no wait.
		if err != nil || took < 10*time.Second || took > 13*time.Second || out.missing(m) != nil {
			t.Errorf("it took %s, missing %d: %v", took, len(out.missing(m)), err)
		}
		if seconds := int(took / time.Second); waited == 0 || saves < seconds/2 || saves > 2*seconds+2 {
			t.Errorf("waited %s, saved %d times in %s", waited, saves, took)
		}
	})
}

// A page may hold more rows than a slow load may copy in a second: all of them count.
func TestPageBeyondTheBurstIsPaidForAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, rows := context.Background(), NewThrottle(5)
		began := task.Mono(ctx)
		waited, err := rows.Take(ctx, ctx, 25)
		// The first five need no wait.
		if took := task.Mono(ctx) - began; err != nil || waited != took || took != 4*time.Second {
			t.Errorf("25 rows at 5 a second took %s, %s of it waiting: %v", took, waited, err)
		}
	})
}

// The end of either context ends a wait, and Take returns how long it waited.
func TestEitherContextEndsAWaitForRows(t *testing.T) {
	for _, drains := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			rows := NewThrottle(1)
			ended, cancel := task.WithTimeout(context.Background(), 2500*time.Millisecond)
			defer cancel()
			drain, work := ended, context.Background()
			if !drains {
				drain, work = work, drain
			}
			began := task.Mono(work)
			waited, err := rows.Take(drain, work, 1000)
			if took := task.Mono(work) - began; !errors.Is(err, context.DeadlineExceeded) || waited != 2*time.Second || took != 2500*time.Millisecond {
				t.Errorf("drain %t: %s of %s, %v", drains, waited, took, err)
			}
		})
	}
}

func TestUnthrottledNeverWaits(t *testing.T) {
	for _, rows := range []*Throttle{nil, NewThrottle(0), NewThrottle(-1)} {
		if waited, err := rows.Take(context.Background(), context.Background(), 1<<30); waited != 0 || err != nil {
			t.Errorf("%s %v", waited, err)
		}
	}
	for limit, want := range map[float64]int{1: 25, 200: 50, 4000: 1000, 1e6: 0} {
		if got := pageOf(NewThrottle(limit).perSecond() / 4); got != want {
			t.Errorf("%v rows/s over 4: pages of %d", limit, got)
		}
	}
}

// An operator may lower the limit while a load waits under the previous one: the rest is then paid
// for in smaller portions.
func TestLimitIsLoweredDuringAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, rows := context.Background(), NewThrottle(100)
		g := task.NewGroup(ctx, 0)
		g.Go("operator", func(ctx context.Context) error {
			_ = task.Sleep(ctx, 500*time.Millisecond)
			rows.Set(ctx, 10)
			return nil
		})
		// 100 immediately; for the next 100 a second, half of it at the new limit; then the rest of
		// that portion, and the last 100, at 10 a second.
		if waited, err := rows.Take(ctx, ctx, 300); err != nil || waited < 15*time.Second || waited > 16*time.Second {
			t.Errorf("waited %s: %v", waited, err)
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
	})
}

// failsOnce is a source whose first read fails, and whose answers have a time.
type failsOnce struct {
	ScanSource
	failed bool
}

func (s *failsOnce) Scan(ctx context.Context, table string, segment, total int, after attribute.Item, limit int) (ScanPage, error) {
	if !s.failed {
		s.failed = true
		return ScanPage{}, &cdc.Error{Op: "Scan", Reason: cdc.Unavailable}
	}
	page, err := s.ScanSource.Scan(ctx, table, segment, total, after, limit)
	page.At = task.Now(ctx)
	return page, err
}

// A read may be retried for hours, but that does not make its images older: each attempt has its
// own time.
func TestImagesAreAsOldAsTheAttemptThatReadThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, out := context.Background(), &target{}
		var last time.Time
		p := part(&failsOnce{ScanSource: newMemory(3)}, out, 0, 1)
		p.Write = func(ctx context.Context, page Page, readAt time.Time) error {
			last = readAt
			return out.write(ctx, page, readAt)
		}
		p.Retry = func(ctx context.Context, op func(ctx context.Context) error) error {
			for op(ctx) != nil {
				_ = task.Sleep(ctx, time.Hour)
			}
			return nil
		}
		began := task.Now(ctx)
		if _, err := p.run(ctx, partProgress{}); err != nil || last.Sub(began) != time.Hour {
			t.Errorf("read at %s, an hour after %s: %v", last, began, err)
		}
	})
}
