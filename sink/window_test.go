package sink

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// settled returns the pace after many rounds against a target whose mean response time depends on
// the number of concurrent requests.
func settled(p pace, latency func(size int) time.Duration) pace {
	for range 200 {
		p = p.next(round{answers: p.size, took: latency(p.size) * time.Duration(p.size), awaited: true}, rowBounds)
	}
	return p
}

func TestWindowsHideLatencyAndDoNotQueue(t *testing.T) {
	first := pace{size: rowBounds.first}
	far := settled(first, func(int) time.Duration { return 30 * time.Millisecond })
	if far.size != rowBounds.most {
		t.Errorf("a target that is far away and takes everything: %d at once", far.size)
	}
	// The target serves 100 requests at a time; further ones only wait there.
	narrow := settled(first, func(size int) time.Duration { return time.Millisecond * time.Duration(max(size, 100)) / 100 })
	if narrow.size < 100 || narrow.size > 300 {
		t.Errorf("a target that does 100 at once: %d", narrow.size)
	}
	if again := settled(far, func(size int) time.Duration { return 5 * time.Second * time.Duration(size) / 100 }); again.size > 500 {
		t.Errorf("one that has become narrow: %d", again.size)
	}
	if idle := (pace{size: 64, best: time.Second}).next(round{answers: 64, took: 64 * time.Millisecond}, rowBounds); idle.size != 64 {
		t.Errorf("a window that nobody waits for has become %d", idle.size)
	}
	if p := (pace{size: 1000, best: 1}).next(round{answers: 999, failures: 1, took: 999, awaited: true}, rowBounds); p.size != 500 {
		t.Errorf("after a pushback: %d", p.size)
	}
	if p := (pace{size: rowBounds.least}).next(round{failures: rowBounds.least}, rowBounds); p.size != rowBounds.least {
		t.Errorf("after failures alone: %d", p.size)
	}
}

// The window admits requests by number; the content of a row does not matter.
func TestAWindowLetsAsManyThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ctx, most, running := newWindow(rowBounds), context.Background(), 0, 0
		g := task.NewGroup(ctx, 0)
		for range 4000 {
			if err := w.acquire(ctx); err != nil {
				t.Error(err)
				break
			}
			w.mu.Lock()
			running++
			most = max(most, running)
			w.mu.Unlock()
			g.Go("request", func(ctx context.Context) error {
				defer w.release()
				_ = task.Sleep(ctx, 5*time.Millisecond)
				w.mu.Lock()
				running--
				w.mu.Unlock()
				w.note(5*time.Millisecond, nil)
				w.note(time.Hour, &Error{Reason: Rejected})
				return nil
			})
		}
		_ = g.Wait()
		if most <= 2*rowBounds.first || w.pace.size < most {
			t.Errorf("at most %d at once, %d in the end", most, w.pace.size)
		}
		for range 3 * rowBounds.most {
			w.note(0, &Error{Reason: Unknown})
		}
		if w.pace.size > rowBounds.most/4 {
			t.Errorf("%d at once to a target that is away", w.pace.size)
		}
		w.note(0, errors.New("of the context"))
	})
}
