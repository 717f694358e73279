package follow

import (
	"context"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Assigner decides which of a table's shards this worker reads. It looks at the ledger alone: there
// is no coordinator.
type Assigner struct {
	*engine.Common
	open           func(streamARN string) cdc.Source
	follower       *follower // works under the leases
	fencing        *engine.Fencing
	shares         *engine.Shares
	tracker        *engine.ShardTracker
	spec           engine.Spec
	once           *engine.Completion // nil: it goes on when the table is drained
	wake           *task.Wakeup
	wakeReconciler *task.Wakeup // the coordinator's: a shard was left

	rested time.Duration // between the last two looks
}

func NewAssigner(s *engine.Table, follower *follower) *Assigner {
	return &Assigner{
		Common: s.Common, open: s.Open, follower: follower, fencing: s.Fencing, shares: s.Worker.Shares, tracker: &s.Tracker,
		spec: s.Spec, once: s.Worker.Completion, wake: &s.Wake.Assigner, wakeReconciler: &s.Wake.Reconciler,
	}
}

// Assign looks at the ledger again and again and takes every shard that is free, and now and then
// one of a worker that holds more, until a drain begins, or nothing is left to do: with Once when
// all tables are drained, and for a table that was dropped long ago. Then it calls finish. It
// returns when the last shard is given up.
func (a *Assigner) Assign(life engine.Lifecycle, finish func()) error {
	held := engine.NewHoldings(life, func() {
		a.wake.Signal()
		a.wakeReconciler.Signal()
	})
	defer a.shares.Forget(a.Source)
	watch := a.Ledger.NewWatch()
	waits := FirstLook(a.Events.Waits)
	for !life.Draining() && held.Life.Work.Err() == nil {
		var v engine.View
		err := a.Retry(held.Life.Finishing(), "read the ledger (ReadRows)", func(ctx context.Context) (err error) {
			v, err = a.attempt(ctx)
			return err
		})
		if err == nil {
			err = a.take(held, watch, v, waits)
		}
		if err != nil {
			if err := a.End(err); err != nil {
				held.Tasks.Fail(err)
			}
			break
		}
		a.report(life.Work, v)
		if a.once != nil && a.reportDrained(life.Work, v) || a.longGone(v, a.leaving(life.Work)) {
			finish()
			break
		}
		_ = a.wake.Wait(life.Drain, a.rest(life.Work, v))
	}
	return held.Tasks.Wait()
}

// attempt looks at the ledger once. The loop turns with every attempt, whatever becomes of it: an
// outage of the target is nothing that a restart of this process would fix. What is read here
// meanwhile still ages, or is given up as its leases end.
func (a *Assigner) attempt(ctx context.Context) (engine.View, error) {
	a.Events.Tick()
	defer a.Events.Tick()
	over := a.tracker.IsOver()
	v, err := a.Look(ctx)
	if err == nil {
		a.fencing.Formers.See(v.State)
		err = a.fencing.Read(ctx)
	}
	v.Over = over && v.State.Suspended.Reason == engine.GoneReason
	if err == nil && a.once != nil {
		v.Listed, err = a.listed(ctx, v)
	}
	if err != nil {
		a.tracker.Settle(nil) // whether another worker reads them cannot be known
		a.ReportLag(ctx, a.tracker)
	}
	return v, err
}

// listed is when the last whole listing was of. It is read only where a shard ended a day ago
// without known children, which is rare: before that no listing shows that it has none.
func (a *Assigner) listed(ctx context.Context, v engine.View) (time.Time, error) {
	now := a.Ledger.ServiceTime(ctx)
	ended := func(s checkpoint.Shard) bool { return !s.AwaitsChildren(now) }
	if !slices.ContainsFunc(checkpoint.Unfollowed(v.State, v.Shards, time.Time{}), ended) {
		return time.Time{}, nil
	}
	listings, err := a.Ledger.Listings(ctx, a.Source, v.State.Label)
	return listings.At, err
}

// take leases what is free and starts a task for each lease.
func (a *Assigner) take(held *engine.Holdings, watch *checkpoint.Watch, v engine.View, waits waiter) error {
	if v.State.Listed == 0 {
		return nil // until the stream was listed as a whole, the hops are not settled
	}
	free, others := watch.Look(v.Shards, v.State, task.Mono(held.Life.Work))
	waits(a.Source, engine.OfShards, len(others), a.Ledger.Lease())
	for _, shard := range free {
		if err := a.lease(held, shard, v); err != nil {
			return err
		}
	}
	return a.even(held, others, v)
}

// waiter is told of leases that others hold.
type waiter func(table string, of engine.Leases, leases int, wait time.Duration)

// FirstLook reports the leases of the first look alone: later ones were taken by workers that run.
func FirstLook(tell waiter) waiter {
	looked := false
	return func(table string, of engine.Leases, leases int, wait time.Duration) {
		if !looked && leases > 0 {
			tell(table, of, leases, wait)
		}
		looked = true
	}
}

// lease takes one shard and starts to follow it, unless this worker is still at it. The error is
// only what ends the process.
func (a *Assigner) lease(held *engine.Holdings, shard checkpoint.Available, v engine.View) error {
	err := held.Begin(shard.Shard.ID, func(ctx context.Context) (func(life engine.Lifecycle) error, error) {
		var lease *checkpoint.Lease
		stamps, err := a.Register.Prove(ctx, a.fencing.Mapping.Tables(), func(ctx context.Context) (err error) {
			lease, err = a.Ledger.Take(ctx, shard.Shard, shard.Parent)
			return err
		})
		a.Events.Tick() // there may be many to take, and each may have to wait for an answer that does not come
		return func(life engine.Lifecycle) error { return a.follower.hold(life, lease, stamps, v.State) }, err
	})
	switch {
	case engine.Fatal(err):
		return err
	case err != nil && !engine.IsAny(err, checkpoint.ErrTaken, checkpoint.ErrHalted, sink.ErrNoFence): // which the coordinator is about to raise
		a.Events.Retry(a.Source, "acquire a lease", a.Timing.Pass, err)
	}
	return nil
}

// report tells the events how the table stands.
func (a *Assigner) report(ctx context.Context, v engine.View) {
	states := map[checkpoint.State]int{checkpoint.Waiting: 0, checkpoint.Reading: 0, checkpoint.Done: 0, checkpoint.Gap: 0}
	for _, s := range v.Shards {
		states[s.State]++
	}
	a.Events.Ledger(v.State, states)
	a.tracker.Settle(v.Shards)
	a.ReportLag(ctx, a.tracker)
}

// drained reports whether nothing is left to do for now: the table is loaded, or cannot be; every
// open shard is read, here or by another worker, and has been giving empty pages for a while; and
// of none that ended is it unknown what follows. It is a heuristic: DynamoDB tells no end of an
// open shard. Of a table that was dropped meanwhile there is nothing to copy, and nothing follows
// its last shards.
func (a *Assigner) drained(v engine.View, mono time.Duration) bool {
	if a.tracker.IsSuspended() {
		return true // what the ledger says may be of before, and over
	}
	if v.State.Listed == 0 || !v.Over && a.spec.Loading(v.State) {
		return false
	}
	if !v.Over && len(checkpoint.Unfollowed(v.State, v.Shards, v.Listed)) > 0 {
		return false
	}
	drained := true
	if a.Mode == checkpoint.Topic && len(checkpoint.Unapplied(v.State, v.Shards, v.Merged)) > 0 {
		drained = false
	}
	for _, s := range v.Shards {
		switch {
		case s.Label != v.State.Label:
		case s.Reopenable(v.State) || s.Undeclared(v.State):
			return false
		case s.Finished():
		case s.Owner == a.Ledger.Worker() && a.tracker.Idle(s.ID, a.Timing, mono):
		case s.Owner != a.Ledger.Worker() && a.tracker.IdleElsewhere(s, a.Timing, a.Ledger.Lease()/3, mono):
		default:
			// The others are looked at all the same, so that all are waited for at the same time:
			// of a shard that another worker reads, the time for which nothing was found counts
			// from the first look at it.
			drained = false
		}
	}
	return drained
}

// reportDrained reports how the table stands, and reports whether the run is over.
func (a *Assigner) reportDrained(ctx context.Context, v engine.View) bool {
	drained := func() bool { return a.drained(v, task.Mono(ctx)) }
	return a.once.Report(a.Source, drained(), drained)
}

// longGone tells whether nothing is left to do for a table of a pattern, which was dropped and has
// no stream any more. One of its name that is created later joins anew. What the ledger says may be
// of before that: the coordinator here must have found the same.
func (a *Assigner) longGone(v engine.View, now time.Time) bool {
	aside := v.State.Suspended
	return a.once == nil && a.tracker.IsSuspended() && aside.Reason == engine.GoneReason && now.Sub(aside.Since) > engine.LookedAfter
}

// leaving is the time that longGone is judged by. A worker that never held a shard or the coordinator
// lease has heard no answer of the source; nothing is claimed by leaving, so its own clock will do.
func (a *Assigner) leaving(ctx context.Context) time.Time {
	if now := a.Ledger.ServiceTime(ctx); !now.IsZero() {
		return now
	}
	return task.Now(ctx)
}

// rest is lookAfter for what was seen last. Workers look at different moments, so that together they
// find a lease that has ended about as soon as each would by itself: whoever looked just after its
// last renewal is the first to see that it stood still.
func (a *Assigner) rest(ctx context.Context, v engine.View) time.Duration {
	rows, workers := a.shares.Looks(a.Source, a.Ledger.Worker(), len(v.Shards))
	rest := a.Timing.LookAfter(rows, workers, a.Ledger.Lease())
	if rest == a.Timing.Pass || a.once != nil {
		a.rested = a.Timing.Pass // with Once the looks are what shows that all is drained
	} else {
		a.rested = max(a.Timing.Pass, rest/2+time.Duration(task.Rand(ctx)*float64(rest/2)))
	}
	return a.rested
}

// passes is for how many looks the next one stands.
func (a *Assigner) passes() int { return max(1, int(a.rested/a.Timing.Pass)) }
