package task_test

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

func TestGroupFirstErrorCancelsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		g := task.NewGroup(context.Background(), 0)
		g.Go("waits", func(ctx context.Context) error { return task.Sleep(ctx, time.Hour) })
		g.Go("fails", func(ctx context.Context) error {
			_ = task.Sleep(ctx, time.Second)
			return boom
		})
		start := time.Now()
		if err := g.Wait(); !errors.Is(err, boom) {
			t.Fatalf("got %v", err)
		}
		if d := time.Since(start); d != time.Second {
			t.Fatalf("waited %s", d)
		}
	})
}

func TestGroupLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		g := task.NewGroup(context.Background(), 3)
		for range 20 {
			g.Go("one", func(ctx context.Context) error {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
				return task.Sleep(ctx, time.Second)
			})
		}
		if err := g.Wait(); err != nil || most.Load() != 3 {
			t.Fatalf("%v, at most %d at once", err, most.Load())
		}
	})
}

// giveUp claims n units of a limit for a second, and gets none.
func giveUp(t *testing.T, ctx context.Context, l *task.Limit, n int64) {
	t.Helper()
	ctx, cancel := task.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := l.Acquire(ctx, n); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestLimitServesInOrderAndForgetsTheCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		l := task.NewLimit(4)
		if err := l.Acquire(ctx, 3); err != nil {
			t.Fatal(err)
		}
		var order []int
		g := task.NewGroup(ctx, 0)
		g.Go("impatient", func(ctx context.Context) error {
			giveUp(t, ctx, l, 4)
			return nil
		})
		_ = task.Sleep(ctx, time.Millisecond)
		// 100 is above the size: it waits for the whole limit, and 1 does not overtake it.
		for i, n := range []int64{100, 1} {
			g.Go("claim", func(ctx context.Context) error {
				_ = task.Sleep(ctx, time.Duration(i+1)*time.Millisecond)
				if err := l.Acquire(ctx, n); err != nil {
					return err
				}
				order = append(order, i)
				l.Release(n)
				return nil
			})
		}
		_ = task.Sleep(ctx, time.Minute)
		l.Release(3)
		if err := g.Wait(); err != nil {
			t.Fatal(err)
		}
		if len(order) != 2 || order[0] != 0 {
			t.Fatalf("order %v", order)
		}
	})
}

// If a large claim at the head of the queue is given up, the claims behind it get the free units.
func TestLimitGoesOnWithoutTheOneThatGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		l := task.NewLimit(4)
		if err := l.Acquire(ctx, 3); err != nil {
			t.Fatal(err)
		}
		g := task.NewGroup(ctx, 0)
		g.Go("impatient", func(ctx context.Context) error {
			giveUp(t, ctx, l, 4)
			return nil
		})
		_ = task.Sleep(ctx, time.Millisecond)
		start := time.Now()
		patient, end := task.WithTimeout(ctx, time.Hour)
		defer end()
		if err := l.Acquire(patient, 1); err != nil || time.Since(start) > time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
		_ = g.Wait()
	})
}

// outrun is a runtime whose waits prefer the end of the context over an event that has happened, as
// a select may choose.
type outrun struct{ task.Runtime }

func (outrun) NewEvent() task.Event { return outrunEvent{task.NewEvent(context.Background())} }

type outrunEvent struct{ task.Event }

func (e outrunEvent) Wait(ctx context.Context) error {
	err := e.Event.Wait(context.Background())
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// A claim that is granted at the moment when its context ends is returned; otherwise each such
// claim would make the limit smaller permanently.
func TestLimitIsHandedBackByWhoIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		l := task.NewLimit(1)
		if err := l.Acquire(ctx, 1); err != nil {
			t.Fatal(err)
		}
		leaving, leave := context.WithCancel(task.With(ctx, outrun{}))
		g := task.NewGroup(ctx, 0)
		g.Go("leaves", func(context.Context) error {
			if err := l.Acquire(leaving, 1); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			return nil
		})
		synctest.Wait()
		leave()
		l.Release(1)
		_ = g.Wait()
		next, cancel := task.WithTimeout(ctx, time.Hour)
		defer cancel()
		if err := l.Acquire(next, 1); err != nil {
			t.Errorf("nobody holds it, and the next one waits: %v", err)
		}
	})
}

// Errors of tasks that were cancelled do not hide the first error.
func TestGroupTellsTheFirstError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		g := task.NewGroup(context.Background(), 0)
		g.Go("is cancelled", func(ctx context.Context) error {
			_ = task.Sleep(ctx, time.Hour)
			return errors.New("the client was cancelled")
		})
		g.Go("fails", func(context.Context) error { return boom })
		if err := g.Wait(); !errors.Is(err, boom) {
			t.Errorf("got %v", err)
		}
	})
}

func TestBellKeepsARing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b task.Wakeup
		ctx := context.Background()
		b.Signal()
		b.Signal()
		start := time.Now()
		_ = b.Wait(ctx, time.Hour)
		if d := time.Since(start); d != 0 {
			t.Fatalf("a kept signal waited %s", d)
		}
		g := task.NewGroup(ctx, 0)
		g.Go("ringer", func(ctx context.Context) error {
			_ = task.Sleep(ctx, time.Minute)
			b.Signal()
			return nil
		})
		_ = b.Wait(ctx, time.Hour)
		if d := time.Since(start); d != time.Minute {
			t.Fatalf("woke after %s", d)
		}
		_ = b.Wait(ctx, time.Hour)
		if d := time.Since(start); d != time.Minute+time.Hour {
			t.Fatalf("woke after %s", d)
		}
		_ = g.Wait()
	})
}

// A crew is a group: all of its tasks run concurrently unless they wait for others, and Wait leaves
// no goroutine behind.
func TestACrewTakesUpTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		g := task.NewCrew(context.Background())
		var ran atomic.Int32
		start := time.Now()
		for range 3 {
			for range 100 {
				g.Go("small", func(ctx context.Context) error {
					ran.Add(1)
					return task.Sleep(ctx, time.Second)
				})
			}
			_ = task.Sleep(g.Context(), 2*time.Second)
		}
		if d := time.Since(start); ran.Load() != 300 || d != 6*time.Second {
			t.Errorf("%d tasks in %s", ran.Load(), d)
		}
		g.Go("fails", func(context.Context) error { return boom })
		if err := g.Wait(); !errors.Is(err, boom) {
			t.Errorf("got %v", err)
		}
	})
}

// A call returns after its function, with or without a crew. The crew's end leaves no goroutine
// behind, and a later call is still made.
func TestCallsOfACrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, wait := task.WithCrew(context.Background())
		for name, ctx := range map[string]context.Context{"crew": shared, "none": context.Background()} {
			called := 0
			call := func() {
				time.Sleep(time.Second)
				called++
			}
			for range 3 {
				task.Call(ctx, call)
			}
			if called != 3 {
				t.Errorf("%s: %d calls", name, called)
			}
			wait()
			if task.Call(ctx, call); called != 4 {
				t.Errorf("%s: %d calls in the end", name, called)
			}
		}
	})
}

// Of very many calls, 128 run at the same time. A call that takes more than a second no longer
// counts, so that a service without answers does not block the others. A call whose context has
// ended does not wait.
func TestCallsOfACrewAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, end := task.WithCrew(context.Background())
		defer end()
		start, began := time.Now(), map[time.Duration]int{}
		var mu sync.Mutex
		call := func(ctx context.Context, takes time.Duration) {
			task.Call(ctx, func() {
				mu.Lock()
				began[time.Since(start)]++
				mu.Unlock()
				time.Sleep(takes)
			})
		}
		for n := range 300 {
			takes := 100 * time.Millisecond
			if n < 128 {
				takes = time.Minute
			}
			go call(shared, takes)
			synctest.Wait() // the calls begin in this order
		}
		ended, cancel := context.WithCancel(shared)
		cancel()
		call(ended, 0)
		time.Sleep(2 * time.Minute)
		mu.Lock()
		defer mu.Unlock()
		want := map[time.Duration]int{0: 128 + 1, time.Second: 128, 1100 * time.Millisecond: 44}
		if !maps.Equal(began, want) {
			t.Errorf("calls began after %v, not %v", began, want)
		}
	})
}

// The groups of a context's crew share its goroutines, and a group's end does not end them.
func TestGroupsShareACrew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared, end := task.WithCrew(context.Background())
		defer end()
		before := runtime.NumGoroutine()
		for range 3 {
			g := task.NewCrew(shared)
			for range 10 {
				g.Go("small", func(ctx context.Context) error { return task.Sleep(ctx, time.Second) })
			}
			if err := g.Wait(); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // each goroutine waits for its next task
		}
		if more := runtime.NumGoroutine() - before; more != 10 {
			t.Errorf("%d goroutines for ten tasks at once", more)
		}
	})
}
