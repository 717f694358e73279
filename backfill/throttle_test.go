package backfill

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

func TestPacedLoadAndLiveThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, out := newMemory(3000), &target{}
		m.pages = func(uint64) int { return 1000 }
		ctx := context.Background()
		rows := NewThrottle(100)
		var waited time.Duration
		saves := 0
		s := &Scan{
			Table: "Orders", Segments: 2, Source: m, Write: out.write, Rows: rows,
			Save:   func(context.Context, Progress) error { saves++; return nil },
			Events: Events{Throttled: func(d time.Duration) { waited += d }},
		}
		g := task.NewGroup(ctx, 0)
		g.Go("operator", func(ctx context.Context) error {
			_ = task.Sleep(ctx, 10*time.Second)
			rows.Set(ctx, 1000)
			return nil
		})
		began := task.Mono(ctx)
		if _, err := s.Run(ctx, Progress{}); err != nil {
			t.Fatal(err)
		}
		took := task.Mono(ctx) - began
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		// 10 s at 100 rows/s, then 2,000 rows at 1,000; the bursts of a second each and the last pages are not waited for.
		if took < 10*time.Second || took > 13*time.Second {
			t.Errorf("took %s", took)
		}
		if waited == 0 || saves < int(took/time.Second)/2 || saves > int(took/time.Second)+1 {
			t.Errorf("waited %s, saved %d times in %s", waited, saves, took)
		}
		if out.missing(m) != nil {
			t.Error("items are missing")
		}
	})
}

// A page may hold more rows than a slow load may copy in a second: all of them count.
func TestPageBeyondTheBurstIsPaidForAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, rows := context.Background(), NewThrottle(5)
		began := task.Mono(ctx)
		waited, err := rows.Take(ctx, 25)
		if took := task.Mono(ctx) - began; err != nil || waited != took || took != 4*time.Second { // the first five are not waited for
			t.Errorf("25 rows at 5 a second took %s, %s of it waiting: %v", took, waited, err)
		}
	})
}

func TestUnthrottledNeverWaits(t *testing.T) {
	for _, rows := range []*Throttle{nil, NewThrottle(0), NewThrottle(-1)} {
		if waited, err := rows.Take(context.Background(), 1<<30); waited != 0 || err != nil || rows.pageLimit(4) != 0 {
			t.Errorf("%s %v, pages of %d", waited, err, rows.pageLimit(4))
		}
	}
	for limit, want := range map[float64]int{1: 25, 200: 50, 4000: 1000, 1e6: 0} {
		if got := NewThrottle(limit).pageLimit(4); got != want {
			t.Errorf("%v rows/s over 4: pages of %d", limit, got)
		}
	}
}

// An operator may lower the limit while a load waits for the last one: what is left is paid for in the smaller portions that fit it.
func TestLimitIsLoweredDuringAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, rows := context.Background(), NewThrottle(100)
		g := task.NewGroup(ctx, 0)
		g.Go("operator", func(ctx context.Context) error {
			_ = task.Sleep(ctx, 500*time.Millisecond)
			rows.Set(ctx, 10)
			return nil
		})
		// 100 at once; for the next 100 a second, half of it at the new limit; then what that one lacked, and the last 100, at 10 a second.
		if waited, err := rows.Take(ctx, 300); err != nil || waited < 15*time.Second || waited > 16*time.Second {
			t.Errorf("waited %s: %v", waited, err)
		}
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
	})
}

// failsOnce is a source whose first read fails, and which tells its time.
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

// The hours for which a read was repeated do not make its images older: each attempt counts for itself.
func TestImagesAreAsOldAsTheAttemptThatReadThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, out := context.Background(), &target{}
		var last time.Time
		s := &Scan{
			Table: "Orders", Source: &failsOnce{ScanSource: newMemory(3)}, Save: func(context.Context, Progress) error { return nil },
			Write: func(ctx context.Context, items []attribute.Item, readAt time.Time) error {
				last = readAt
				return out.write(ctx, items, readAt)
			},
			Retry: func(ctx context.Context, op func(ctx context.Context) error) error {
				for op(ctx) != nil {
					_ = task.Sleep(ctx, time.Hour)
				}
				return nil
			},
		}
		began := task.Now(ctx)
		if _, err := s.Run(ctx, Progress{}); err != nil || last.Sub(began) != time.Hour {
			t.Errorf("read at %s, an hour after %s: %v", last, began, err)
		}
	})
}
