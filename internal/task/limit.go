package task

import (
	"context"
	"sync"
)

// Limit is a weighted semaphore that serves waiters in order of arrival, so small claims do not
// starve a large one. With a size of one it is a mutex that may be held across waits.
type Limit struct {
	mu      sync.Mutex
	size    int64
	used    int64
	waiters []*claim
}

type claim struct {
	n       int64
	granted Event
	given   bool
}

// NewLimit returns a limit of the given size, which must be positive.
func NewLimit(size int64) *Limit {
	if size <= 0 {
		panic("task: a limit must be positive")
	}
	return &Limit{size: size}
}

// clamp reduces a claim above the whole size, so that it runs alone instead of never. The mutex is
// held.
func (l *Limit) clamp(n int64) int64 { return min(max(n, 1), l.size) }

// Acquire waits until n units are free and takes them, or takes nothing and returns the context's
// cause. A claim larger than the limit waits for the whole limit.
func (l *Limit) Acquire(ctx context.Context, n int64) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	n = l.clamp(n)
	if len(l.waiters) == 0 && l.used+n <= l.size {
		l.used += n
		l.mu.Unlock()
		return nil
	}
	c := &claim{n: n, granted: NewEvent(ctx)}
	l.waiters = append(l.waiters, c)
	l.mu.Unlock()

	err := c.granted.Wait(ctx)
	if err == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.given {
		// Granted at the moment when the context ended: give it back, because the caller will not
		// use it.
		l.used -= n
	} else {
		for i, w := range l.waiters {
			if w == c {
				l.waiters = append(l.waiters[:i], l.waiters[i+1:]...)
				break
			}
		}
	}
	l.grant()
	return err
}

// TryAcquire takes n units if they are free and no other claim waits, and reports whether it did.
func (l *Limit) TryAcquire(n int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = l.clamp(n)
	if len(l.waiters) > 0 || l.used+n > l.size {
		return false
	}
	l.used += n
	return true
}

// Resize changes the size, which must be positive. Units that are taken stay taken. Callers that
// claim more than one unit at a time must not use it, because a claim is clamped to the current
// size.
func (l *Limit) Resize(size int64) {
	if size <= 0 {
		panic("task: a limit must be positive")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.size = size
	l.grant()
}

// Awaited reports whether a claim waits for units.
func (l *Limit) Awaited() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiters) > 0
}

// Release returns n units, clamped as Acquire clamps them.
func (l *Limit) Release(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used -= l.clamp(n)
	if l.used < 0 {
		panic("task: more released than acquired")
	}
	l.grant()
}

// grant serves the waiters at the front. The mutex is held.
func (l *Limit) grant() {
	for len(l.waiters) > 0 && l.used+l.waiters[0].n <= l.size {
		c := l.waiters[0]
		l.waiters = l.waiters[1:]
		l.used += c.n
		c.given = true
		c.granted.Set()
	}
}
