// Package task is the runtime seam: time, randomness, concurrency. All that waits, times, draws a
// random number or runs concurrently goes through it. It imports no other package of this module.
//
// In production it is plain Go. In the simulation a cooperative scheduler takes its place: it runs one task at a time and
// lets a seed choose who goes on at every wait, so that the very same loops run in both, repeatable byte for byte. That is
// why the packages above it never write `go`, `select`, a channel operation, time.Now, time.Sleep, a timer,
// context.WithTimeout or a draw from math/rand themselves; a test over their syntax trees holds them to it.
//
// The runtime travels in the context, like a trace does: a task that was handed a context runs where that context came
// from, and a simulated worker with a skewed clock is no more than a context with another runtime.
package task

import (
	"cmp"
	"context"
	"time"
)

// Runtime is the world a task runs in. Production code does not call it; it calls the functions of this package.
type Runtime interface {
	// Now is the wall clock. It may jump either way.
	Now() time.Time
	// Mono is the time passed since an arbitrary start, on a clock that never goes back and ignores changes of the wall clock.
	Mono() time.Duration
	// Rand is uniform in [0, 1). It serves jitter, never identity.
	Rand() float64
	// Go starts f as a task of its own.
	Go(name string, f func())
	// Sleep returns nil after d, or the context's cause as soon as it ends.
	Sleep(ctx context.Context, d time.Duration) error
	// NewEvent returns an event that has not happened.
	NewEvent() Event
	// WithTimeout is context.WithTimeoutCause on this runtime's clock.
	WithTimeout(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc)
}

// Event happens once and stays so.
type Event interface {
	// Set makes the event happen; more calls change nothing.
	Set()
	// Wait returns nil once the event has happened, or the context's cause if that ends first.
	Wait(ctx context.Context) error
}

type key struct{}

// With returns a context whose tasks run in r.
func With(ctx context.Context, r Runtime) context.Context { return context.WithValue(ctx, key{}, r) }

func from(ctx context.Context) Runtime {
	if r, ok := ctx.Value(key{}).(Runtime); ok {
		return r
	}
	return plain{}
}

// Now is the wall clock of this worker. It may jump; nothing that must be right may rest on it.
func Now(ctx context.Context) time.Time { return from(ctx).Now() }

// Clock is Now for what is given no context, such as a handler of requests.
func Clock(ctx context.Context) func() time.Time { return from(ctx).Now }

// Mono is the monotonic clock of this worker: only differences mean anything.
func Mono(ctx context.Context) time.Duration { return from(ctx).Mono() }

// Rand is uniform in [0, 1), for jitter.
func Rand(ctx context.Context) float64 { return from(ctx).Rand() }

// Sleep waits for d, or returns the context's cause when it ends first. A d of zero or less still is a point where another
// task may go on.
func Sleep(ctx context.Context, d time.Duration) error { return from(ctx).Sleep(ctx, d) }

// SleepWithin is Sleep for a wait that two contexts may end; a says in which runtime.
func SleepWithin(a, b context.Context, d time.Duration) error {
	err := from(a).Sleep(either{a, b}, d)
	return cmp.Or(err, context.Cause(a), context.Cause(b))
}

// either ends as soon as one of two contexts does. A runtime that waits for Done looks at both.
type either struct {
	context.Context
	other context.Context
}

func (e either) Err() error { return cmp.Or(e.Context.Err(), e.other.Err()) }

// NewEvent returns an event that has not happened yet.
func NewEvent(ctx context.Context) Event { return from(ctx).NewEvent() }

// WithTimeout returns a context that ends after d. Its cause is then context.DeadlineExceeded.
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return WithTimeoutCause(ctx, d, context.DeadlineExceeded)
}

// WithTimeoutCause returns a context that ends after d, with the given cause.
func WithTimeoutCause(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc) {
	return from(ctx).WithTimeout(ctx, d, cause)
}
