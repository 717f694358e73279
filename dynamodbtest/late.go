package dynamodbtest

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// errCut ends a call without an answer: the server closes the connection.
var errCut = errors.New("the connection is cut")

// lateCall is a call that was let in, and that the server executes later.
type lateCall struct {
	due time.Time
	run func()
}

// lateList holds the calls that a Fault with Late has delayed, in the order of their arrival.
type lateList struct {
	waiting atomic.Int64 // number of calls, so that requests need no lock if there are none

	mu    sync.Mutex
	calls []lateCall
}

func (l *lateList) add(c lateCall) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, c)
	l.waiting.Store(int64(len(l.calls)))
}

// execute runs the calls that are due, in the order of their times. Each request and control calls
// it first, so the state that they see is the state at their time. The lock is held during the
// calls, so that no concurrent request precedes them.
func (l *lateList) execute(now time.Time) {
	if l.waiting.Load() == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var due []lateCall
	l.calls = slices.DeleteFunc(l.calls, func(c lateCall) bool {
		if c.due.After(now) {
			return false
		}
		due = append(due, c)
		return true
	})
	slices.SortStableFunc(due, func(a, b lateCall) int { return a.due.Compare(b.due) })
	for _, c := range due {
		c.run()
	}
	l.waiting.Store(int64(len(l.calls)))
}
