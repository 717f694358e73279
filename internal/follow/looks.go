package follow

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// looks decides when an assigner of a large fleet reads all shards. Its passes come in pairs that
// are a lease apart, and pairs are rare. The first pass of a pair sees the counters of all leases,
// and the second pass finds the leases that have ended. Pairs of different workers begin at
// different times. So all workers together read each row about as often as one coordinator does.
type looks struct {
	large bool          // the last pass found a large fleet
	open  bool          // the second pass of a pair is missing
	first time.Duration // when the first pass of the open pair was made
	due   time.Duration // when the next pass is due, on the monotonic clock
	// What the last pass found.
	state  checkpoint.TableState
	states map[checkpoint.State]int // how many shards have each state
}

// made records a pass and decides when the next one is due. The argument `between` is the mean time
// between two passes of this worker at which the whole fleet keeps within its rate.
func (l *looks) made(ctx context.Context, between, lease time.Duration) {
	now := task.Mono(ctx)
	if l.large = between > lease; !l.large {
		l.open = false
		return
	}
	switch {
	case !l.open:
		l.open, l.first, l.due = true, now, now+lease
	case now-l.first < lease: // something woke this pass
		l.due = l.first + lease
	default:
		rest := 2*between - lease
		l.open, l.due = false, now+rest/2+time.Duration(task.Rand(ctx)*float64(rest))
	}
}

// pause waits until the next pass. In a large fleet, it reads the table's record meanwhile, because
// this worker must soon notice a change of the record. It ends early if something wakes the
// assigner.
func (a *Assigner) pause(life engine.Lifecycle, v engine.View) {
	rest := a.rest(life.Work, v)
	a.looks.state = v.State
	for {
		now := task.Mono(life.Work)
		until := now + rest
		if a.looks.large {
			until = min(until, a.looks.due)
		}
		woken := a.wake.Await(life.Drain, until-now)
		over := !a.looks.large || task.Mono(life.Work) >= a.looks.due
		if woken || over || life.Draining() || !a.glance(life.Work) {
			return
		}
	}
}

// glance reads the table's record only. It reports whether the record is what the last pass found.
// If it is not, or if it cannot be read, the next pass must follow at once.
func (a *Assigner) glance(ctx context.Context) (same bool) {
	a.Events.Tick()
	defer a.Events.Tick()
	now, err := a.Record(ctx)
	if err != nil {
		return false
	}
	a.fencing.Formers.See(now)
	a.follower.publisher.See(now)
	a.Events.Ledger(now, a.looks.states) // otherwise the worker would soon count as not ready
	a.ReportLag(ctx, a.tracker)
	was := &a.looks.state
	return a.fencing.Read(ctx) == nil && now.Generation == was.Generation && now.Adopted == was.Adopted && now.Label == was.Label &&
		now.Listed == was.Listed && now.Halted() == was.Halted() && now.Suspended.Reason == was.Suspended.Reason
}
