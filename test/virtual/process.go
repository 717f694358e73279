package virtual

import (
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// ErrKilled is the cause of the context of a process that was killed.
var ErrKilled = errors.New("virtual: process killed")

// Process is one simulated machine. All tasks started under its context use its clock. They stop
// while it is paused, and end when it is killed.
type Process struct {
	world  *World
	name   string
	ctx    context.Context
	cancel context.CancelCauseFunc
	skew   time.Duration
	still  *time.Time    // what a stopped wall clock shows
	stop   time.Duration // paused until this instant
	dead   bool
}

// NewProcess adds a machine to the world.
func (w *World) NewProcess(name string) *Process {
	p := &Process{world: w, name: name}
	ctx, cancel := context.WithCancelCause(task.With(context.Background(), p))
	p.ctx, p.cancel = ctx, cancel
	return p
}

// World returns the world in which the process runs.
func (p *Process) World() *World { return p.world }

// Name returns the name of the process in traces.
func (p *Process) Name() string { return p.name }

// Context returns a context with the process as its runtime.
func (p *Process) Context() context.Context { return p.ctx }

// Dead reports whether the process was killed.
func (p *Process) Dead() bool { return p.dead }

// Kill ends the process as kill -9 does. Only requests that were already sent still take effect.
func (p *Process) Kill() {
	if p.dead {
		return
	}
	p.world.Tracef("kills %s", p.name)
	p.world.Inject("process killed")
	p.dead = true
	var mine []*coroutine
	for _, t := range p.world.tasks {
		if t.proc == p {
			mine = append(mine, t)
		}
	}
	before := p.world.current
	for _, t := range mine {
		p.world.forget(t)
		p.world.current = t
		t.stop()
	}
	p.world.current = before
	p.cancel(ErrKilled)
}

// Pause stops the process for d, as SIGSTOP does. Afterwards its tasks and timers continue, in any
// order.
func (p *Process) Pause(d time.Duration) {
	p.world.Tracef("pauses %s for %s", p.name, d)
	p.world.Inject("process paused")
	p.stop = p.world.now + d
	p.world.after(p.world.hub, d, func() {})
}

// Skew sets how far the wall clock of the process is ahead of true time.
func (p *Process) Skew(d time.Duration) { p.skew, p.still = d, nil }

// StandStill stops the wall clock of the process until Skew sets it again. The monotonic clock
// continues.
func (p *Process) StandStill() {
	now := p.Now()
	p.still = &now
}

func (p *Process) paused() bool { return p.world.now < p.stop }

// Now returns the time of the process's wall clock.
func (p *Process) Now() time.Time {
	if p.still != nil {
		return *p.still
	}
	return p.world.Now().Add(p.skew)
}

// Mono returns the time of the process's monotonic clock.
func (p *Process) Mono() time.Duration { return p.world.now }

// Rand returns a random number in [0, 1).
func (p *Process) Rand() float64 { return p.world.rng.Float64() }

// Go starts a task of the process.
func (p *Process) Go(name string, f func()) {
	if p.dead {
		panic(killed{})
	}
	p.world.start(p, name, f)
}

// Sleep waits for virtual time.
func (p *Process) Sleep(ctx context.Context, d time.Duration) error {
	t := p.world.current
	if d <= 0 {
		t.runnable = true
		p.world.pause(context.Background())
		return context.Cause(ctx)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t.alarm = timer{at: p.world.now + d, proc: p, wakes: t}
	p.world.add(&t.alarm)
	defer p.world.timers.remove(&t.alarm)
	p.world.pause(ctx)
	if t.alarm.fired {
		return nil
	}
	return context.Cause(ctx)
}

// WithTimeout is context.WithTimeoutCause in virtual time.
func (p *Process) WithTimeout(parent context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	timer := p.world.after(p, d, func() { cancel(cause) })
	return ctx, func() {
		p.world.timers.remove(timer)
		cancel(context.Canceled)
	}
}

// NewEvent returns an event of this world.
func (p *Process) NewEvent() task.Event {
	e := &event{world: p.world}
	e.waiters = e.first[:0]
	return e
}

type event struct {
	world   *World
	set     bool
	waiters []*coroutine
	first   [1]*coroutine // most events have only one waiter
}

func (e *event) Set() {
	e.set = true
	for _, t := range e.waiters {
		t.runnable = true
	}
	e.waiters = nil
}

func (e *event) Wait(ctx context.Context) error {
	if e.set {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t := e.world.current
	e.waiters = append(e.waiters, t)
	e.world.pause(ctx)
	if e.set {
		return nil
	}
	for i, w := range e.waiters {
		if w == t {
			e.waiters = append(e.waiters[:i], e.waiters[i+1:]...)
			break
		}
	}
	return context.Cause(ctx)
}
