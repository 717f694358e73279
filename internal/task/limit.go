package task

import (
	"context"
	"sync"
)

// Limit is a weighted semaphore. It serves waiters in order of arrival, so that a large claim is
// not delayed by many small claims. With a size of one, it is a mutex that a task may hold while it
// waits.
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

// clamp reduces a claim that is larger than the limit to the whole limit. Otherwise the claim would
// wait forever. The caller must hold the mutex.
func (l *Limit) clamp(n int64) int64 { return min(max(n, 1), l.size) }

// Acquire waits until n units are free, and takes them. If the context ends first, it takes none
// and returns the context's cause. A claim larger than the limit waits for the whole limit.
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
		// The units were granted at the moment when the context ended. Give the units back, because
		// the caller will not use them.
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

// TryAcquire takes n units if they are free and no other claim waits. It reports whether it took
// them.
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

// Resize changes the size, which must be positive. Units that are taken stay taken. It must not be
// used with claims of more than one unit, because a claim is reduced to the current size.
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

// Release gives n units back. As in Acquire, n is reduced to the size of the limit.
func (l *Limit) Release(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used -= l.clamp(n)
	if l.used < 0 {
		panic("task: more released than acquired")
	}
	l.grant()
}

// grant serves the waiters at the front of the queue. The caller must hold the mutex.
func (l *Limit) grant() {
	for len(l.waiters) > 0 && l.used+l.waiters[0].n <= l.size {
		c := l.waiters[0]
		l.waiters = l.waiters[1:]
		l.used += c.n
		c.given = true
		c.granted.Set()
	}
}
