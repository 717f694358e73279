package task

import (
	"context"
	"slices"
	"sync"
)

// Shares is a Limit that several names use beside each other. Whoever is slow to release must not hold everything: once there is more than one
// name, each may claim more only while it holds less than shareOfFree times what is free. So a part always stays for a name that holds little,
// and one that is alone at work still gets almost all.
type Shares struct {
	mu      sync.Mutex
	size    int64
	used    int64
	held    map[string]int64 // by every name that ever claimed
	waiters []*share
}

type share struct {
	name string
	claim
}

// shareOfFree leaves a ninth of the whole to others when one name takes all it may, a seventeenth when two do.
const shareOfFree = 8

// NewShares returns shares of a whole of the given size, which must be positive.
func NewShares(size int64) *Shares {
	if size <= 0 {
		panic("task: a limit must be positive")
	}
	return &Shares{size: size, held: map[string]int64{}}
}

// clamp lets a claim above the whole size through alone instead of never.
func (s *Shares) clamp(n int64) int64 { return min(max(n, 1), s.size) }

// Acquire waits until the name may have n units more and takes them, or returns the context's cause with nothing taken.
func (s *Shares) Acquire(ctx context.Context, name string, n int64) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	c := &share{name, claim{n: s.clamp(n)}}
	s.mu.Lock()
	s.held[name] += 0 // from now on there is one of this name
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
		// Granted in the same moment as the context ended: hand it back, the caller will not use it.
		s.give(name, -c.n)
	} else {
		s.waiters = slices.DeleteFunc(s.waiters, func(w *share) bool { return w == c })
	}
	s.grant()
	return err
}

// Release gives n units of the name back, clamped as Acquire clamps them.
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

// grant serves the waiters in the order in which they came. It passes over those whose name holds enough, and keeps what is free for the first
// of the others, so that a large claim is not starved by small ones. The mutex is held.
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
