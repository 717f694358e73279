package task

import (
	"context"
	"sync"
	"time"
)

// Bell wakes one waiter before its time. A ring while nobody waits is kept for the next wait; more rings are one.
type Wakeup struct {
	mu    sync.Mutex
	rung  bool
	event Event
}

// Ring wakes the waiter.
func (b *Wakeup) Signal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rung = true
	if b.event != nil {
		b.event.Set()
	}
}

// Wait returns nil after a ring or after d, whichever is first, or the context's cause when that ends.
func (b *Wakeup) Wait(ctx context.Context, d time.Duration) error {
	b.mu.Lock()
	if b.rung {
		b.rung = false
		b.mu.Unlock()
		return Sleep(ctx, 0)
	}
	event := NewEvent(ctx)
	b.event = event
	b.mu.Unlock()

	timed, cancel := WithTimeout(ctx, d)
	defer cancel()
	_ = event.Wait(timed) // a ring or the time: both end the wait well
	b.mu.Lock()
	b.rung, b.event = false, nil
	b.mu.Unlock()
	return context.Cause(ctx)
}
