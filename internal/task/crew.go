package task

import (
	"context"
	"sync"
	"time"
)

// crew is a number of goroutines that run one function after another. It exists only in plain Go.
type crew struct {
	mu    sync.Mutex
	over  bool
	spare []chan func() // goroutines that wait for a function

	calls chan struct{} // has an element for each call (Call) that counts
}

// mostSpare bounds the goroutines that wait. Each of them keeps the stack of a network call.
const mostSpare = 128

const (
	// mostCalls is the maximum number of calls that count at the same time. A process that got no
	// CPU for seconds has thousands of calls to make. Without the limit, each of them would take a
	// stack and a connection of its own, which the process would then keep.
	mostCalls = 128
	// slowCall is how long a call counts at most. So calls to a service that does not answer delay
	// calls to other services only slightly.
	slowCall = time.Second
)

// run starts f on a goroutine that waits, or else on a new one.
func (c *crew) run(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := len(c.spare) - 1; last >= 0 {
		c.spare[last] <- f // the channel has room for it
		c.spare = c.spare[:last]
		return
	}
	go c.work(f)
}

// work runs one function after another until the crew ends.
func (c *crew) work(f func()) {
	next := make(chan func(), 1)
	for f != nil {
		f()
		if !c.rest(next) {
			return
		}
		f = <-next
	}
}

// rest adds a goroutine to those that wait. It returns false if the goroutine must end.
func (c *crew) rest(next chan func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || len(c.spare) == mostSpare {
		return false
	}
	c.spare = append(c.spare, next)
	return true
}

// end ends the goroutines that wait. The others end after their functions.
func (c *crew) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for _, next := range c.spare {
		close(next)
	}
	c.spare = nil
}

type crewKey struct{}

func crewOf(ctx context.Context) *crew {
	c, _ := ctx.Value(crewKey{}).(*crew)
	return c
}

// WithCrew returns a context whose calls (Call) and crews (NewCrew) share goroutines. The caller
// must call `end` after they have returned. It makes a difference only in plain Go.
func WithCrew(ctx context.Context) (shared context.Context, end func()) {
	if _, is := from(ctx).(plain); !is {
		return ctx, func() {}
	}
	c := &crew{calls: make(chan struct{}, mostCalls)}
	return context.WithValue(ctx, crewKey{}, c), c.end
}

// Call runs f, and returns when f has returned. In plain Go, a goroutine of the context's crew runs
// f. Network calls need large stacks, and thousands of tasks that each make a call from time to
// time thereby keep small ones. If mostCalls calls run, f waits until one of them has returned or
// has taken slowCall.
func Call(ctx context.Context, f func()) {
	c := crewOf(ctx)
	if c == nil {
		f()
		return
	}
	defer c.count(ctx)()
	done := make(chan struct{})
	c.run(func() {
		defer close(done)
		f()
	})
	<-done
}

// count waits until a further call may begin, and counts it until `end` is called. If ctx ends
// before that, the call is not counted, because it returns at once.
func (c *crew) count(ctx context.Context) (end func()) {
	select {
	case c.calls <- struct{}{}:
	case <-ctx.Done():
		return func() {}
	}
	slow := time.AfterFunc(slowCall, func() { <-c.calls })
	return func() {
		if slow.Stop() {
			<-c.calls
		}
	}
}
