// Package task is the runtime seam: time, randomness, concurrency. All waits, times, random numbers
// and goroutines use it. It imports no other package of this module.
//
// In production it is plain Go. In the simulation a cooperative scheduler replaces it. The
// scheduler runs one task at a time. At every wait, a random number from a seed chooses the next
// task. So the same loops run in both, and a simulation with the same seed repeats exactly.
// Therefore packages that use this one must not use `go`, `select`, channel operations, time.Now,
// time.Sleep, timers, context.WithTimeout or math/rand. A test of the packages' syntax trees checks
// this.
//
// The runtime is carried in the context. A task uses the runtime in its context. So to simulate a
// worker with a wrong clock, a test only needs a context with another runtime.
package task

import (
	"cmp"
	"context"
	"time"
)

// Runtime is the environment of a task. Code must not call it directly, but use the functions of
// this package.
type Runtime interface {
	// Now is the wall clock. It may jump forward or back.
	Now() time.Time
	// Mono is the time since an arbitrary start, on a clock that never goes back and is independent
	// of the wall clock.
	Mono() time.Duration
	// Rand returns a uniform number in [0, 1). It is for jitter, and must not be used for unique
	// ids.
	Rand() float64
	// Go starts f as a new task.
	Go(name string, f func())
	// Sleep returns nil after d. If the context ends first, it returns the context's cause at once.
	Sleep(ctx context.Context, d time.Duration) error
	// NewEvent returns an event that has not happened.
	NewEvent() Event
	// WithTimeout is context.WithTimeoutCause on this runtime's clock.
	WithTimeout(ctx context.Context, d time.Duration, cause error) (context.Context, context.CancelFunc)
}

// Event can happen once, and then stays set.
type Event interface {
	// Set makes the event happen; further calls have no effect.
	Set()
	// Wait returns nil when the event has happened. If the context ends first, it returns the
	// context's cause.
	Wait(ctx context.Context) error
}

type key struct{}

// With returns a context in which tasks use the runtime r.
func With(ctx context.Context, r Runtime) context.Context { return context.WithValue(ctx, key{}, r) }

func from(ctx context.Context) Runtime {
	if r, ok := ctx.Value(key{}).(Runtime); ok {
		return r
	}
	return plain{}
}

// Now returns this worker's wall clock. It may jump; correctness must not depend on it.
func Now(ctx context.Context) time.Time { return from(ctx).Now() }

// Clock returns Now for code without a context, such as a handler of requests.
func Clock(ctx context.Context) func() time.Time { return from(ctx).Now }

// Mono returns the time of this worker's monotonic clock. Only differences between such times have
// a meaning.
func Mono(ctx context.Context) time.Duration { return from(ctx).Mono() }

// Rand returns a uniform number in [0, 1), for jitter.
func Rand(ctx context.Context) float64 { return from(ctx).Rand() }

// Sleep waits for d, or returns the context's cause if the context ends first. Even with a d of
// zero or less, another task may run at this point.
func Sleep(ctx context.Context, d time.Duration) error { return from(ctx).Sleep(ctx, d) }

// SleepWithin is Sleep with two contexts. Both can end the wait. It uses the runtime of a.
func SleepWithin(a, b context.Context, d time.Duration) error {
	err := from(a).Sleep(either{a, b}, d)
	return cmp.Or(err, context.Cause(a), context.Cause(b))
}

// either is a context that ends as soon as one of two contexts ends. A runtime that waits for Done
// must check both.
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
