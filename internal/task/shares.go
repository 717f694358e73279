package task

import (
	"context"
	"slices"
	"sync"
)

// Shares is a Limit that several names share. A name that releases its units slowly must not hold
// all units. So if there is more than one name, a name may claim more units only while it holds
// less than shareOfFree times the free units. Then some units always stay free for other names, and
// a single active name still gets almost all units.
type Shares struct {
	mu      sync.Mutex
	size    int64
	used    int64
	held    map[string]int64 // units of every name that has ever made a claim
	waiters []*share
}

type share struct {
	name string
	claim
}

// shareOfFree determines how much stays free. It leaves one ninth of all units if one name takes as
// many as it may, and one seventeenth if two names do.
const shareOfFree = 8

// NewShares returns shares of a whole of the given size, which must be positive.
func NewShares(size int64) *Shares {
	if size <= 0 {
		panic("task: a limit must be positive")
	}
	return &Shares{size: size, held: map[string]int64{}}
}

// clamp reduces a claim that is larger than all units to all units. Otherwise the claim would wait
// forever.
func (s *Shares) clamp(n int64) int64 { return min(max(n, 1), s.size) }

// Acquire waits until the name may take n more units, and takes them. If the context ends first, it
// takes none and returns the context's cause.
func (s *Shares) Acquire(ctx context.Context, name string, n int64) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c := &share{name, claim{n: s.clamp(n)}}
	s.mu.Lock()
	s.held[name] += 0 // registers the name
	s.waiters = append(s.waiters, c)
	s.grant()
	if c.given {
		s.mu.Unlock()
		return nil
	}
	c.granted = NewEvent(ctx)
	s.mu.Unlock()

	err := c.granted.Wait(ctx)
	if err == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.given {
		// The units were granted at the moment when the context ended. Give the units back, because
		// the caller will not use them.
		s.give(name, -c.n)
	} else {
		s.waiters = slices.DeleteFunc(s.waiters, func(w *share) bool { return w == c })
	}
	s.grant()
	return err
}

// Release gives n units of the name back. As in Acquire, n is reduced to the number of all units.
func (s *Shares) Release(name string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.give(name, -s.clamp(n))
	if s.held[name] < 0 {
		panic("task: more released than acquired")
	}
	s.grant()
}

func (s *Shares) give(name string, n int64) {
	s.used += n
	s.held[name] += n
}

// grant serves the waiters in order of arrival. It skips waiters with names that hold too many
// units. It reserves free units for the first other waiter, so that a large claim is not delayed by
// many small claims. The caller must hold the mutex.
func (s *Shares) grant() {
	waiting := s.waiters[:0]
	full := false
	for _, c := range s.waiters {
		enough := len(s.held) > 1 && s.held[c.name] >= shareOfFree*(s.size-s.used)
		full = full || !enough && s.used+c.n > s.size
		if full || enough {
			waiting = append(waiting, c)
			continue
		}
		s.give(c.name, c.n)
		c.given = true
		if c.granted != nil {
			c.granted.Set()
		}
	}
	clear(s.waiters[len(waiting):])
	s.waiters = waiting
}
