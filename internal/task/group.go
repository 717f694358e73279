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

	crew *crew // runs the tasks; nil: each task has a goroutine of its own
	owns bool  // whether Wait ends the crew
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
// another task, so that its stack, which network calls need, grows only once. The goroutines belong
// to the context's crew (WithCrew), or else to the group. It makes a difference only in plain Go.
// The order of tasks is the same as in other groups.
func NewCrew(ctx context.Context) *Group {
	g := NewGroup(ctx, 0)
	if _, is := from(ctx).(plain); is {
		if g.crew = crewOf(ctx); g.crew == nil {
			g.crew, g.owns = &crew{}, true
		}
	}
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
	if g.crew == nil {
		from(g.ctx).Go(name, run)
		return
	}
	g.crew.run(run)
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
	if g.owns {
		g.crew.end()
	}
	g.cancel(context.Canceled)
	return g.err
}
