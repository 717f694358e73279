package task

import (
	"context"
	"sync"
)

// Group runs related tasks: the first error cancels the others, and Wait returns only when all have
// ended. It is errgroup.Group on this runtime seam.
type Group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	slots  *Limit

	mu      sync.Mutex
	running int
	err     error
	idle    Event // set when running falls to zero; nil without a waiter

	reuses bool
	over   bool          // Wait has returned
	spare  []chan func() // of goroutines that have finished a task and wait for another
}

// NewGroup returns a group whose tasks get a context that ends with the first error, with ctx, or
// when Wait returns. A positive limit bounds how many run concurrently; zero means no bound.
func NewGroup(ctx context.Context, limit int) *Group {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	if limit > 0 {
		g.slots = NewLimit(int64(limit))
	}
	return g
}

// NewCrew returns a Group for very many small tasks. A goroutine that has finished a task takes the
// next one, so the stacks that network calls need grow only once. This concerns only plain Go; the
// order of tasks is as in any group.
func NewCrew(ctx context.Context) *Group {
	g := NewGroup(ctx, 0)
	_, g.reuses = from(ctx).(plain)
	return g
}

// Context returns the context of the group's tasks.
func (g *Group) Context() context.Context { return g.ctx }

// Go starts f as soon as the limit allows. If the group ends before, f does not start: the group's
// error says why.
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

// work runs one task after the other until the group is over.
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

// Wait returns when every task has returned, with the first error.
func (g *Group) Wait() error {
	g.mu.Lock()
	for g.running > 0 {
		g.idle = NewEvent(g.ctx)
		idle := g.idle
		g.mu.Unlock()
		// Not the group's own context, because tasks that are being cancelled must still be waited
		// for.
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
