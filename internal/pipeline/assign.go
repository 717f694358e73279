package pipeline

import (
	"context"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// assigner decides which of a table's shards this worker reads. It looks at the ledger alone: there
// is no coordinator.
type assigner struct {
	*common
	open           func(streamARN string) cdc.Source
	follower       *follower // works under the leases
	fencing        *fencing
	shares         *shares
	tracker        *shardTracker
	spec           Table
	once           *completion // nil: it goes on when the table is drained
	wake           *task.Wakeup
	wakeReconciler *task.Wakeup // the keeper's: a shard was left

	rested time.Duration // between the last two looks
}

func newAssigner(s *shared, follower *follower) *assigner {
	return &assigner{
		common: s.common, open: s.open, follower: follower, fencing: s.fencing, shares: s.process.shares, tracker: &s.tracker,
		spec: s.spec, once: s.process.once, wake: &s.wake.assigner, wakeReconciler: &s.wake.reconciler,
	}
}

// assign looks at the ledger again and again and takes every shard that is free, and now and then
// one of a worker that holds more, until a drain begins, or nothing is left to do: with Once when
// all tables are drained, and for a table that was dropped long ago. Then it calls finish. It
// returns when the last shard is given up.
func (a *assigner) assign(life lifecycle, finish func()) error {
	held := newHoldings(life, func() {
		a.wake.Signal()
		a.wakeReconciler.Signal()
	})
	defer a.shares.forget(a.source)
	watch := a.ledger.NewWatch()
	waits := firstLook(a.events.Waits)
	for !life.draining() && held.life.work.Err() == nil {
		var v view
		err := a.retry(held.life.finishing(), "look at the ledger", func(ctx context.Context) (err error) {
			v, err = a.attempt(ctx)
			return err
		})
		if err == nil {
			err = a.take(held, watch, v, waits)
		}
		if err != nil {
			if err := a.end(err); err != nil {
				held.tasks.Fail(err)
			}
			break
		}
		a.report(life.work, v)
		if a.once != nil && a.reportDrained(life.work, v) || a.longGone(v, a.leaving(life.work)) {
			finish()
			break
		}
		_ = a.wake.Wait(life.drain, a.rest(life.work, v))
	}
	return held.tasks.Wait()
}

// attempt looks at the ledger once. The loop turns with every attempt, whatever becomes of it: an
// outage of the target is nothing that a restart of this process would mend. What is read here
// meanwhile still ages, or is given up as its leases end.
func (a *assigner) attempt(ctx context.Context) (view, error) {
	a.events.Tick()
	defer a.events.Tick()
	over := a.tracker.isOver()
	v, err := a.look(ctx)
	if err == nil {
		a.fencing.formers.see(v.state)
		err = a.fencing.read(ctx)
	}
	v.over = over && v.state.Suspended.Reason == GoneReason
	if err == nil && a.once != nil {
		v.listed, err = a.listed(ctx, v)
	}
	if err != nil {
		a.tracker.settle(nil) // whether another worker reads them cannot be known
		a.reportLag(ctx, a.tracker)
	}
	return v, err
}

// listed is when the last whole listing was of. It is read only where a shard ended a day ago
// without known children, which is rare: before that no listing shows that it has none.
func (a *assigner) listed(ctx context.Context, v view) (time.Time, error) {
	now := a.ledger.ServiceTime(ctx)
	ended := func(s checkpoint.Shard) bool { return !s.AwaitsChildren(now) }
	if !slices.ContainsFunc(checkpoint.Unfollowed(v.state, v.shards, time.Time{}), ended) {
		return time.Time{}, nil
	}
	listings, err := a.ledger.Listings(ctx, a.source, v.state.Label)
	return listings.At, err
}

// take leases what is free and starts a task for each lease.
func (a *assigner) take(held *holdings, watch *checkpoint.Watch, v view, waits waiter) error {
	if v.state.Listed == 0 {
		return nil // until the stream was listed as a whole, the hops are not settled
	}
	free, others := watch.Look(v.shards, v.state, task.Mono(held.life.work))
	waits(a.source, OfShards, len(others), a.ledger.Lease())
	for _, shard := range free {
		if err := a.lease(held, shard, v); err != nil {
			return err
		}
	}
	return a.even(held, others, v)
}

// waiter is told of leases that others hold.
type waiter func(table string, of Leases, leases int, wait time.Duration)

// firstLook reports the leases of the first look alone: later ones were taken by workers that run.
func firstLook(tell waiter) waiter {
	looked := false
	return func(table string, of Leases, leases int, wait time.Duration) {
		if !looked && leases > 0 {
			tell(table, of, leases, wait)
		}
		looked = true
	}
}

// lease takes one shard and starts to follow it, unless this worker is still at it. The error is
// only what ends the process.
func (a *assigner) lease(held *holdings, shard checkpoint.Available, v view) error {
	err := held.begin(shard.Shard.ID, func(ctx context.Context) (func(life lifecycle) error, error) {
		var lease *checkpoint.Lease
		stamps, err := fence.Prove(ctx, a.ledger, a.fencing.mapping.Tables(), func(ctx context.Context) (err error) {
			lease, err = a.ledger.Take(ctx, shard.Shard, shard.Parent)
			return err
		})
		a.events.Tick() // there may be many to take, and each may have to wait for an answer that does not come
		return func(life lifecycle) error { return a.follower.hold(life, lease, stamps, v.state) }, err
	})
	switch {
	case fatal(err):
		return err
	case err != nil && !isAny(err, checkpoint.ErrTaken, checkpoint.ErrHalted, sink.ErrNoFence): // which the keeper is about to raise
		a.events.Retry(a.source, "take a lease", a.timing.Pass, err)
	}
	return nil
}

// report tells the events how the table stands.
func (a *assigner) report(ctx context.Context, v view) {
	states := map[checkpoint.State]int{checkpoint.Waiting: 0, checkpoint.Reading: 0, checkpoint.Done: 0, checkpoint.Gap: 0}
	for _, s := range v.shards {
		states[s.State]++
	}
	a.events.Ledger(v.state, states)
	a.tracker.settle(v.shards)
	a.reportLag(ctx, a.tracker)
}

// drained tells whether nothing is left to do for now: the table is loaded, or cannot be; every
// open shard is read, here or by another worker, and has been giving empty pages for a while; and
// of none that ended is it unknown what follows. It is a heuristic: DynamoDB tells no end of an
// open shard. Of a table that was dropped meanwhile there is nothing to copy, and nothing follows
// its last shards.
func (a *assigner) drained(v view, mono time.Duration) bool {
	if a.tracker.isSuspended() {
		return true // what the ledger says may be of before, and over
	}
	if v.state.Listed == 0 || !v.over && a.spec.loading(v.state) {
		return false
	}
	if !v.over && len(checkpoint.Unfollowed(v.state, v.shards, v.listed)) > 0 {
		return false
	}
	drained := true
	if a.mode == checkpoint.Topic && len(checkpoint.Unapplied(v.state, v.shards, v.merged)) > 0 {
		drained = false
	}
	for _, s := range v.shards {
		switch {
		case s.Label != v.state.Label:
		case s.Reopenable(v.state) || s.Undeclared(v.state):
			return false
		case s.Finished():
		case s.Owner == a.ledger.Worker() && a.tracker.idle(s.ID, a.timing, mono):
		case s.Owner != a.ledger.Worker() && a.tracker.idleElsewhere(s, a.timing, a.ledger.Lease()/3, mono):
		default:
			// The others are looked at all the same, so that all are waited for at the same time:
			// of a shard that another worker reads, the time for which nothing was found counts
			// from the first look at it.
			drained = false
		}
	}
	return drained
}

// reportDrained reports how the table stands, and tells whether the run is over.
func (a *assigner) reportDrained(ctx context.Context, v view) bool {
	drained := func() bool { return a.drained(v, task.Mono(ctx)) }
	return a.once.report(a.source, drained(), drained)
}

// longGone tells whether nothing is left to do for a table of a pattern, which was dropped and has
// no stream any more. One of its name that is created later joins anew. What the ledger says may be
// of before that: the keeper here must have found the same.
func (a *assigner) longGone(v view, now time.Time) bool {
	aside := v.state.Suspended
	return a.once == nil && a.tracker.isSuspended() && aside.Reason == GoneReason && now.Sub(aside.Since) > lookedAfter
}

// leaving is the time that longGone is judged by. A worker that never held a shard or the keeper
// lease has heard no answer of the source; nothing is claimed by leaving, so its own clock will do.
func (a *assigner) leaving(ctx context.Context) time.Time {
	if now := a.ledger.ServiceTime(ctx); !now.IsZero() {
		return now
	}
	return task.Now(ctx)
}

// rest is lookAfter for what was seen last. Workers look at different moments, so that together they
// find a lease that has ended about as soon as each would by itself: whoever looked just after its
// last renewal is the first to see that it stood still.
func (a *assigner) rest(ctx context.Context, v view) time.Duration {
	rows, workers := a.shares.looks(a.source, a.ledger.Worker(), len(v.shards))
	rest := a.timing.lookAfter(rows, workers, a.ledger.Lease())
	if rest == a.timing.Pass || a.once != nil {
		a.rested = a.timing.Pass // with Once the looks are what shows that all is drained
	} else {
		a.rested = max(a.timing.Pass, rest/2+time.Duration(task.Rand(ctx)*float64(rest/2)))
	}
	return a.rested
}

// passes is for how many looks the next one stands.
func (a *assigner) passes() int { return max(1, int(a.rested/a.timing.Pass)) }
