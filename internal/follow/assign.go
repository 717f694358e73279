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

// Assigner decides which shards of a table this worker reads. It uses only the ledger, so no
// central process assigns shards.
type Assigner struct {
	*engine.Common
	open     func(streamARN string) cdc.Source
	follower *follower // reads shards under their leases
	fencing  *engine.Fencing
	shares   *engine.Shares
	tracker  *engine.ShardTracker
	spec     engine.Spec
	once     *engine.Completion // nil if the worker continues once the table is drained
	wake     *task.Wakeup
	// wakeReconciler wakes the coordinator when this worker has stopped reading a shard.
	wakeReconciler *task.Wakeup

	rested time.Duration // time between the last two passes
	looks  looks
}

func NewAssigner(s *engine.Table, follower *follower) *Assigner {
	return &Assigner{
		Common: s.Common, open: s.Open, follower: follower, fencing: s.Fencing, shares: s.Worker.Shares, tracker: &s.Tracker,
		spec: s.Spec, once: s.Worker.Completion, wake: &s.Wake.Assigner, wakeReconciler: &s.Wake.Reconciler,
	}
}

// Assign regularly reads the ledger and acquires every free shard. Sometimes it takes a shard over
// from a worker that holds more shards. Assign ends in one of three cases: a drain begins, all
// tables are drained (with Once), or the table was dropped long ago. Then it calls `finish`. It
// returns when this worker has released its last shard.
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
		a.pause(life, v)
	}
	return held.Tasks.Wait()
}

// attempt reads the ledger once. A failed attempt also counts as a sign of life of this loop,
// because a restart of this process does not fix an outage of the target. During an outage, the lag
// of the shards is still reported until their leases end.
func (a *Assigner) attempt(ctx context.Context) (engine.View, error) {
	a.Events.Tick()
	defer a.Events.Tick()
	over := a.tracker.IsOver()
	v, err := a.Look(ctx)
	if err == nil {
		a.fencing.Formers.See(v.State)
		a.follower.publisher.See(v.State)
		err = a.fencing.Read(ctx)
	}
	v.Over = over && v.State.Suspended.Reason == engine.GoneReason
	if err == nil && a.once != nil {
		v.Listed, err = a.listed(ctx, v)
	}
	if err != nil {
		// The argument is nil, because it is unknown whether another worker reads the released
		// shards.
		a.tracker.Settle(nil)
		a.ReportLag(ctx, a.tracker)
	}
	return v, err
}

// listed returns the time of the last complete listing. Only a listing from after that time can
// prove that a shard has no children. The listings are read only if a shard ended more than a day
// ago and no child is known, which is rare.
func (a *Assigner) listed(ctx context.Context, v engine.View) (time.Time, error) {
	now := a.Ledger.ServiceTime(ctx)
	ended := func(s checkpoint.Shard) bool { return !s.AwaitsChildren(now) }
	if !slices.ContainsFunc(checkpoint.Unfollowed(v.State, v.Shards, time.Time{}), ended) {
		return time.Time{}, nil
	}
	listings, err := a.Ledger.Listings(ctx, a.Source, v.State.Label)
	return listings.At, err
}

// take acquires free shards, and starts a task for each lease.
func (a *Assigner) take(held *engine.Holdings, watch *checkpoint.Watch, v engine.View, waits waiter) error {
	if v.State.Listed == 0 {
		return nil // hops of shards are known only after the first complete listing
	}
	free, others := watch.Look(v.Shards, v.State, task.Mono(held.Life.Work))
	waits(a.Source, engine.OfShards, len(others), a.Ledger.Lease())
	state := v.State // the tasks of the leases must not keep the rows of all shards
	for _, shard := range free {
		if err := a.lease(held, shard, &state); err != nil {
			return err
		}
	}
	return a.even(held, others, &state)
}

// waiter is a function that is called with the number of leases that other workers hold.
type waiter func(table string, of engine.Leases, leases int, wait time.Duration)

// FirstLook returns a waiter that reports only the leases that the first pass finds. Leases that
// appear later belong to workers that are running.
func FirstLook(tell waiter) waiter {
	looked := false
	return func(table string, of engine.Leases, leases int, wait time.Duration) {
		if !looked && leases > 0 {
			tell(table, of, leases, wait)
		}
		looked = true
	}
}

// lease acquires one shard and starts to replicate it, unless an earlier task of this worker still
// handles the shard. It returns only errors that must end the process.
func (a *Assigner) lease(held *engine.Holdings, shard checkpoint.Available, state *checkpoint.TableState) error {
	err := held.Begin(shard.Shard.ID, func(ctx context.Context) (func(life engine.Lifecycle) error, error) {
		var lease *checkpoint.Lease
		stamps, err := a.Register.Prove(ctx, a.fencing.Mapping.Tables(), func(ctx context.Context) (err error) {
			lease, err = a.Ledger.Take(ctx, *shard.Shard, shard.Parent)
			return err
		})
		a.Events.Tick() // one pass may take long, if the target is slow and many shards are free
		return func(life engine.Lifecycle) error { return a.follower.hold(life, lease, stamps, state) }, err
	})
	switch {
	case engine.Fatal(err):
		return err
	// There is no fence yet. The coordinator will raise it soon.
	case err != nil && !engine.IsAny(err, checkpoint.ErrTaken, checkpoint.ErrHalted, sink.ErrNoFence):
		a.Events.Retry(a.Source, "acquire a lease", a.Timing.Pass, err)
	}
	return nil
}

// report reports the state of the table and of its shards as events.
func (a *Assigner) report(ctx context.Context, v engine.View) {
	states := map[checkpoint.State]int{checkpoint.Waiting: 0, checkpoint.Reading: 0, checkpoint.Done: 0, checkpoint.Gap: 0}
	for _, s := range v.Shards {
		states[s.State]++
	}
	a.Events.Ledger(v.State, states)
	a.looks.states = states
	a.tracker.Settle(v.Shards)
	a.ReportLag(ctx, a.tracker)
}

// drained reports whether there is nothing left to do at present. The table must be loaded, unless
// a load is impossible. Each open shard must have a worker that has received only empty pages for
// some time. The children of each ended shard must be known. This is a heuristic, because DynamoDB
// does not show the end of an open shard. A dropped table needs no load, and its last shards have
// no children.
func (a *Assigner) drained(v engine.View, mono time.Duration) bool {
	if a.tracker.IsSuspended() {
		return true // the ledger may show an old state, from before the suspension
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
			// The loop continues, so that the idle times of all shards run at once. For a shard
			// that another worker reads, the idle time begins with the first check.
			drained = false
		}
	}
	return drained
}

// reportDrained passes on to the completion whether the table is drained. It returns whether the
// run is over.
func (a *Assigner) reportDrained(ctx context.Context, v engine.View) bool {
	drained := func() bool { return a.drained(v, task.Mono(ctx)) }
	return a.once.Report(a.Source, drained(), drained)
}

// longGone reports whether a table that matched a pattern needs no more work. The table must have
// been dropped so long ago that its stream no longer exists. If a table of this name is created
// later, it joins again. The ledger may be outdated, so this worker's own coordinator must also
// have found the table dropped.
func (a *Assigner) longGone(v engine.View, now time.Time) bool {
	aside := v.State.Suspended
	return a.once == nil && a.tracker.IsSuspended() && aside.Reason == engine.GoneReason && now.Sub(aside.Since) > engine.LookedAfter
}

// leaving returns the current time for longGone. A worker that has held no lease has not heard the
// source's time. It may use its own clock here, because the time only decides when the worker stops
// its work on the table.
func (a *Assigner) leaving(ctx context.Context) time.Time {
	if now := a.Ledger.ServiceTime(ctx); !now.IsZero() {
		return now
	}
	return task.Now(ctx)
}

// rest returns the time until the next pass. It computes a random time from the last state of the
// ledger, so that workers make their passes at different times. So an expired lease is found soon,
// even if each worker makes few passes.
func (a *Assigner) rest(ctx context.Context, v engine.View) time.Duration {
	rows, workers := a.shares.Looks(a.Source, a.Ledger.Worker(), len(v.Shards))
	rest := a.Timing.LookAfter(rows, workers, a.Ledger.Lease())
	between := a.Timing.LookBetween(rows, workers)
	if a.once != nil || a.shares.Uneven() {
		between = 0 // a worker with too few shards makes the passes of a small fleet
	}
	a.looks.made(ctx, between, a.Ledger.Lease())
	if rest == a.Timing.Pass || a.once != nil {
		a.rested = a.Timing.Pass // with Once, only regular passes can show that everything is drained
	} else {
		a.rested = max(a.Timing.Pass, rest/2+time.Duration(task.Rand(ctx)*float64(rest/2)))
	}
	return a.rested
}

// passes returns how many regular passes the next pass replaces.
func (a *Assigner) passes() int { return max(1, int(a.rested/a.Timing.Pass)) }
