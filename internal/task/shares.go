package task

import (
	"context"
	"slices"
	"sync"
)

// Shares is a Limit that several names share. A name that releases slowly must not hold everything.
// Once there is more than one name, each may claim more only while it holds less than shareOfFree
// times the free units. So some units always stay free for a name that holds few, and a name that
// works alone still gets almost all.
type Shares struct {
	mu      sync.Mutex
	size    int64
	used    int64
	held    map[string]int64 // by every name that has ever claimed
	waiters []*share
}

type share struct {
	name string
	claim
}

// shareOfFree leaves a ninth of the whole to others if one name takes all it may, a seventeenth if
// two do.
const shareOfFree = 8

// NewShares returns shares of a whole of the given size, which must be positive.
func NewShares(size int64) *Shares {
	if size <= 0 {
		panic("task: a limit must be positive")
	}
	return &Shares{size: size, held: map[string]int64{}}
}

// clamp reduces a claim above the whole size, so that it runs alone instead of never.
func (s *Shares) clamp(n int64) int64 { return min(max(n, 1), s.size) }

// Acquire waits until the name may have n more units and takes them, or takes nothing and returns
// the context's cause.
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
		// Granted at the moment when the context ended: give it back, because the caller will not
		// use it.
		s.give(name, -c.n)
	} else {
		s.waiters = slices.DeleteFunc(s.waiters, func(w *share) bool { return w == c })
	}
	s.grant()
	return err
}

// Release returns n units of the name, clamped as Acquire clamps them.
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

// grant serves the waiters in order of arrival. It skips waiters whose name holds enough, and
// reserves free units for the first of the others, so small claims do not starve a large one. The
// mutex is held.
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
