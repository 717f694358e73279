package apply

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// If the application also writes the target, a message is applied twice, like a page of a stream
// (settle.go). The first application has timestamps and happens at once. The second application is
// exact. It happens when the application's own write for the same change can no longer be in
// flight. That is after a delay, or as soon as the application promises it in a cutover. Until the
// second application is durable, the message is neither noted in the ledger nor acknowledged, and
// its deadline is extended. So a process that ends loses no message. Pub/Sub delivers the message
// again, the guard rejects its first application as stale, and the delay begins again.
//
// A topic cannot be read again from a position. So no message is dropped for lack of room. Instead,
// no more messages are pulled while the waiting messages use all of SettleBytes.

// unsettled holds the messages that were applied once, in the order in which their second
// application is due.
type unsettled struct {
	room *task.Limit // in bytes
	wake task.Wakeup

	mu    sync.Mutex
	queue []unsettledMessage
}

type unsettledMessage struct {
	*message
	lane *lane
	due  time.Duration // on the monotonic clock
}

// await makes a message wait until its second application is due. During a drain, it drops the
// message, and Pub/Sub delivers it again to another process.
func (a *appliers) await(life engine.Lifecycle, l *lane, m *message) {
	due, exact := task.Mono(life.Work)+l.late, m.exact
	bytes := engine.PageBytes + exact.Size()
	a.free(m)
	if a.unsettled.room.Acquire(life.Drain, bytes) != nil {
		return
	}
	m.exact, m.held = exact, bytes
	a.unsettled.mu.Lock()
	defer a.unsettled.mu.Unlock()
	a.unsettled.queue = append(a.unsettled.queue, unsettledMessage{m, l, due})
	a.unsettled.wake.Signal()
}

// due removes at most `most` due messages from the front of the queue, and returns them. If no
// message is due, it returns the time until the next one is due.
func (u *unsettled) due(now time.Duration, most int) (due []unsettledMessage, wait time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := 0
	for n < len(u.queue) && n < most && u.queue[n].due <= now {
		n++
	}
	if n == 0 && len(u.queue) > 0 {
		return nil, u.queue[0].due - now
	}
	due = append(due, u.queue[:n]...)
	clear(u.queue[:n]) // release the batches
	u.queue = u.queue[n:]
	return due, time.Minute
}

// assertDue puts due messages into their tables' lanes until a drain begins. Pub/Sub delivers the
// remaining messages again to other processes.
func (a *appliers) assertDue(life engine.Lifecycle) error {
	for !life.Draining() {
		due, wait := a.unsettled.due(task.Mono(life.Work), a.Pull)
		if len(due) == 0 {
			_ = a.unsettled.wake.Wait(life.Drain, wait)
			continue
		}
		for _, m := range due {
			m.lane.put(m.message)
		}
	}
	return nil
}

// heedPromises looks for promises of applications that their own writes have ended, until a drain
// begins. It reads the ledger only while messages wait.
func (a *appliers) heedPromises(life engine.Lifecycle) error {
	wait := a.Timing.Pass
	for task.Sleep(life.Drain, wait) == nil {
		wait = a.Timing.Pass
		for _, l := range a.unsettled.lanes() {
			limited, cancel := task.WithTimeout(life.Work, engine.GlanceTime)
			state, _, err := a.Ledger.Table(limited, l.Source)
			cancel()
			if err != nil {
				continue
			}
			if state.FreezeNear() {
				wait = min(wait, a.Timing.Soon)
			}
			a.unsettled.hasten(l, state.Halt.Quiet, task.Mono(life.Work))
		}
	}
	return nil
}

// lanes returns the lanes of the waiting messages.
func (u *unsettled) lanes() (lanes []*lane) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, m := range u.queue {
		if !slices.Contains(lanes, m.lane) {
			lanes = append(lanes, m.lane)
		}
	}
	return lanes
}

// hasten makes the messages of a lane due that a promise covers.
func (u *unsettled) hasten(l *lane, q checkpoint.Quiet, now time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	hastened := false
	for i := range u.queue {
		if m := &u.queue[i]; m.lane == l && m.due > now && covers(q, m.change.Change) {
			m.due, hastened = now, true
		}
	}
	if hastened {
		slices.SortStableFunc(u.queue, func(a, b unsettledMessage) int { return cmp.Compare(a.due, b.due) })
		u.wake.Signal()
	}
}

// covers reports whether a promise covers a change. A change without a time is never covered.
func covers(q checkpoint.Quiet, c cdc.Change) bool {
	switch {
	case c.Time.IsZero():
		return false
	case c.Expired:
		return q.Covers(time.Time{}, c.Time)
	}
	return q.Covers(c.Time, time.Time{})
}
