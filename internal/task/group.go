package task

import (
	"context"
	"sync"
)

// Group runs related tasks. The first error cancels the other tasks, and Wait returns only when all
// tasks have ended. It does the same as errgroup.Group, but on the runtime of this package.
type Group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	slots  *Limit

	mu      sync.Mutex
	running int
	err     error
	idle    Event // set when running becomes zero; nil if no task waits

	reuses bool
	over   bool          // whether Wait has returned
	spare  []chan func() // goroutines that have finished a task and wait for another task
}

// NewGroup returns a group. The context of its tasks ends with the first error, with ctx, or when
// Wait returns. A positive limit is the maximum number of tasks that run concurrently; zero means
// no limit.
func NewGroup(ctx context.Context, limit int) *Group {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	if limit > 0 {
		g.slots = NewLimit(int64(limit))
	}
	return g
}

// NewCrew returns a Group for very many small tasks. A goroutine that has finished a task runs
// another task, so that its stack, which network calls need, grows only once. It makes a difference
// only in plain Go. The order of tasks is the same as in other groups.
func NewCrew(ctx context.Context) *Group {
	g := NewGroup(ctx, 0)
	_, g.reuses = from(ctx).(plain)
	return g
}

// Context returns the context of the group's tasks.
func (g *Group) Context() context.Context { return g.ctx }

// Go starts f as soon as the limit allows. If the group ends before that, f does not start, and the
// group's error is the reason.
func (g *Group) Go(name string, f func(ctx context.Context) error) {
	if g.slots != nil {
		if err := g.slots.Acquire(g.ctx, 1); err != nil {
			g.fail(err)
			return
		}
	}
	g.mu.Lock()
	g.running++
	g.mu.Unlock()
	run := func() {
		err := f(g.ctx)
		if g.slots != nil {
			g.slots.Release(1)
		}
		if err != nil {
			g.fail(err)
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.running--
		if g.running == 0 && g.idle != nil {
			g.idle.Set()
		}
	}
	if !g.reuses {
		from(g.ctx).Go(name, run)
		return
	}
	g.mu.Lock()
	if last := len(g.spare) - 1; last >= 0 {
		next := g.spare[last]
		g.spare = g.spare[:last]
		g.mu.Unlock()
		next <- run
		return
	}
	g.mu.Unlock()
	from(g.ctx).Go(name, func() { g.work(run) })
}

// work runs one task after another until Wait has returned.
func (g *Group) work(run func()) {
	next := make(chan func(), 1)
	for run != nil {
		run()
		g.mu.Lock()
		if g.over {
			g.mu.Unlock()
			return
		}
		g.spare = append(g.spare, next)
		g.mu.Unlock()
		run = <-next
	}
}

type crewKey struct{}

// WithCrew returns a context whose calls (Call) share goroutines. The function `wait` ends these
// goroutines after their calls.
func WithCrew(ctx context.Context) (shared context.Context, wait func()) {
	crew := NewCrew(ctx)
	return context.WithValue(ctx, crewKey{}, crew), func() { _ = crew.Wait() }
}

// Call runs f, and returns when f has returned. In plain Go, a goroutine of the context's crew runs
// f. Network calls need large stacks, and thousands of tasks that each make a call from time to
// time thereby keep small ones.
func Call(ctx context.Context, f func()) {
	g, _ := ctx.Value(crewKey{}).(*Group)
	if g == nil || !g.reuses {
		f()
		return
	}
	done := make(chan struct{})
	g.Go("call", func(context.Context) error {
		defer close(done)
		f()
		return nil
	})
	<-done
}

// Fail ends the group as if one of its tasks had returned err.
func (g *Group) Fail(err error) { g.fail(err) }

func (g *Group) fail(err error) {
	g.mu.Lock()
	if g.err == nil {
		g.err = err
	}
	g.mu.Unlock()
	g.cancel(err)
}

// Wait waits until every task has returned, and returns the first error.
func (g *Group) Wait() error {
	g.mu.Lock()
	for g.running > 0 {
		g.idle = NewEvent(g.ctx)
		idle := g.idle
		g.mu.Unlock()
		// The group's own context cannot be used here: Wait must also wait for tasks that were
		// cancelled.
		_ = idle.Wait(context.WithoutCancel(g.ctx))
		g.mu.Lock()
	}
	defer g.mu.Unlock()
	g.over = true
	for _, next := range g.spare {
		close(next)
	}
	g.spare = nil
	g.cancel(context.Canceled)
	return g.err
}
