package task

import (
	"context"
	"sync"
	"time"
)

// Wakeup wakes one waiter early. If no task waits, the signal is kept for the next wait. Several
// signals count as one.
type Wakeup struct {
	mu        sync.Mutex
	signalled bool
	event     Event
}

// Signal wakes the waiter.
func (b *Wakeup) Signal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.signalled = true
	if b.event != nil {
		b.event.Set()
	}
}

// Wait returns nil after a signal or after d. If the context ends first, it returns the context's
// cause.
func (b *Wakeup) Wait(ctx context.Context, d time.Duration) error {
	b.Await(ctx, d)
	return context.Cause(ctx)
}

// Await is like Wait, but reports whether there was a signal.
func (b *Wakeup) Await(ctx context.Context, d time.Duration) (signalled bool) {
	b.mu.Lock()
	if b.signalled {
		b.signalled = false
		b.mu.Unlock()
		_ = Sleep(ctx, 0)
		return true
	}
	event := NewEvent(ctx)
	b.event = event
	b.mu.Unlock()

	timed, cancel := WithTimeout(ctx, d)
	defer cancel()
	_ = event.Wait(timed) // a signal and the end of the time are normal ends of the wait
	b.mu.Lock()
	defer b.mu.Unlock()
	signalled = b.signalled
	b.signalled, b.event = false, nil
	return signalled
}
