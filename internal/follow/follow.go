package follow

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// follower works under the leases of a table's shards: one loop for each.
type follower struct {
	*engine.Common
	applier   engine.Applier
	publisher engine.Publisher
	fencing   *engine.Fencing
	mapping   *transform.Mapping
	open      func(streamARN string) cdc.Source
	database  engine.Database
	slots     *task.Limit // for pages
	calls     *engine.Reads
	tracker   *engine.ShardTracker
	outages   *engine.Outages
	late      time.Duration // how long after its change the application may write the target; 0: it does not
	room      *SettleRoom
	lagBound  time.Duration
	rechecks  func() Recheck // nil: this process does not compare rows
	number    *engine.RecheckNumber
}

// NewFollower makes what works under leases. Sample, if not nil, is shown what is applied; pages that
// are to be settled take room.
func NewFollower(s *engine.Table, sample func(*transform.Batch) (durable func()), room *SettleRoom, rechecks func() Recheck) *follower {
	return &follower{
		Common: s.Common, applier: s.Applier(sample), publisher: s.Publisher, fencing: s.Fencing, mapping: s.Mapping, open: s.Open, database: s.Database,
		slots: s.Worker.Slots, calls: s.Worker.Calls, tracker: &s.Tracker, outages: &s.Outages,
		late: s.Spec.Late, room: room, lagBound: cmp.Or(s.Spec.LagBound, defaultLagBound),
		rechecks: rechecks, number: &s.Recheck,
	}
}

// follow reads one shard for as long as the lease is held and no drain has begun: read, fold,
// publish where the mode says so, write, commit. The checkpoint moves only over what Write has
// reported durable (I3), so that a crash anywhere repeats work and loses none. Under dual writes the
// settler is given each page, and commits (settle.go).
func (f *follower) follow(life engine.Lifecycle, lease *checkpoint.Lease, right *engine.Right, reader *cdc.Reader, state checkpoint.TableState, settling *settler, recheck *rechecking) error {
	slot := engine.NewPageSlot(f.slots, f.calls)
	defer slot.Drop(true)
	pages := &pageReader{follower: f, reader: reader, slot: slot}
	err := f.loop(life, lease, right, pages, state, settling, recheck)
	pages.drop() // waits, so that it is not deferred: a process that ends at once waits for nothing
	return err
}

func (f *follower) loop(life engine.Lifecycle, lease *checkpoint.Lease, right *engine.Right, pages *pageReader, state checkpoint.TableState, settling *settler, recheck *rechecking) error {
	ctx, shard, slot := life.Work, lease.Shard(), pages.slot
	older := inherits(state, shard)
	at, committed := shard.Progress(), task.Mono(ctx)
	saved := at.Applied // which appliers are measured by, of a topic
	rate := engine.RateMeter{At: committed}
	for !life.Draining() {
		if settling == nil {
			recheck.turn(ctx, at.Position)
		}
		page, err := pages.next(life, at)
		if life.Draining() && err != nil {
			break
		}
		if err != nil {
			return err
		}
		f.outages.Answered(shard.ID)
		if at, err = f.publisher.Announce(life, lease, at, page.Changes); err != nil {
			return err
		}
		next := at
		changes := engine.Keep(&next, engine.CutOf(shard, state), page.Changes)
		kept := changes
		changes, err = f.publisher.Publish(life, shard, at, page.Changes, len(page.Changes)-len(changes), slot)
		if errors.Is(err, engine.ErrPutBack) {
			continue
		} else if err != nil {
			return err
		}
		batch := transform.Fold(f.mapping, changes, transform.Stamp{Generation: shard.Generation, Hop: shard.Hop, NotBefore: at.CellTime, DualWrites: settling != nil})
		batch.Latest = latestOf(batch.Latest, kept) // of what appliers write, too
		batch.Read = transform.Reading{At: page.At, Mono: page.answered}
		f.own(&batch, older)
		asserted := recheck.take(&batch)
		err = f.applier.Write(life, right, settling.timestampedBatch(&batch), changes, slot)
		slot.Drop(err != nil || len(page.Changes) > 0)
		if errors.Is(err, engine.ErrPutBack) {
			continue
		}
		if err != nil {
			return err
		}
		f.Events.PageDone(f.Source)
		before := at
		at = Advance(next, page.Page, batch.Latest, page.sent)
		at.AppliedTo = page.appliedTo
		sight(&at, f.mapping, page.Page, f.lagBound)
		at.Rate = rate.Add(len(kept), task.Mono(ctx))
		looks := at
		looks.CaughtUp = at.CaughtUp && (f.Mode.Writes() || at.Applied == saved)
		empty := f.tracker.Read(shard.ID, looks, task.Mono(ctx))
		f.tracker.Reach(shard.ID, shard.Reached(at))
		settles := settling.add(ctx, &batch, len(changes), before, at, page.End)
		if page.End && settles {
			return nil
		}
		if !settles && len(page.Changes) > 0 {
			asserted(ctx, at.Position.After)
		}
		if page.End {
			recheck.finish(life)
			at.Rechecked = recheck.state()
			return f.finish(life, lease, at)
		}
		at.Rechecked = recheck.state()
		if now := task.Mono(ctx); !settles && (f.due(before, looks, now-committed) || recheck.news()) {
			if err := f.Retry(life.Finishing(), "commit", func(ctx context.Context) error { return lease.Commit(ctx, at) }); err != nil {
				return err
			}
			committed, saved = now, at.Applied
		}
		if at.CaughtUp {
			if !settles { // what a renewal may commit
				lease.Offer(at)
			}
			_ = task.Sleep(life.Drain, f.rest(empty)) // a stop ends the wait, and then the loop
			if err := context.Cause(ctx); err != nil {
				return err // the lease is lost, and no commit says so
			}
		}
	}
	if settling != nil {
		return nil
	}
	return f.Retry(life.Finishing(), "commit", func(ctx context.Context) error { return lease.Commit(ctx, at) })
}

// inherits reports whether rows may be older than the generation that a lease gave the shard. It may
// have been raised since the table's record was read.
func inherits(state checkpoint.TableState, shard checkpoint.Shard) bool {
	return state.MayHoldOlderRows() || state.Generation != shard.Generation
}

// own makes a batch remove what its items may have in its rows beside what its images say.
func (f *follower) own(batch *transform.Batch, older bool) {
	if older {
		sink.OwnAll(f.mapping, batch)
	} else {
		sink.OwnRemoved(f.mapping, batch)
	}
}

// latestOf is the time by which cells of the last of changes are dated: they never go back.
func latestOf(at time.Time, changes []cdc.Change) time.Time {
	for _, c := range changes {
		if c.Time.After(at) {
			at = c.Time
		}
	}
	return at
}

// finish marks the shard done, its last page being durable.
func (f *follower) finish(life engine.Lifecycle, lease *checkpoint.Lease, at checkpoint.Progress) error {
	err := f.Retry(life.Finishing(), "finish a shard", func(ctx context.Context) error { return lease.Finish(ctx, at) })
	if err == nil {
		f.Events.ShardDone(f.Source, lease.Shard().ID)
	}
	return err
}

// Advance moves the progress over a page that is durable as a whole.
func Advance(at checkpoint.Progress, page cdc.Page, cellTime, sent time.Time) checkpoint.Progress {
	at.ReadAt, at.CaughtUp = sent, len(page.Changes) == 0
	at.Applied += uint64(len(page.Changes))
	if at.FirstRead.IsZero() {
		at.FirstRead = page.At // on the service's clock, as every time that coverage is judged by (H64)
	}
	for _, c := range page.Changes {
		at.Position.After = c.Sequence
		if c.Time.After(at.EventTime) {
			at.EventTime = c.Time
		}
	}
	if cellTime.After(at.CellTime) {
		at.CellTime = cellTime
	}
	return at
}

// due tells whether the progress is worth a checkpoint: at once after a shard's first read, because
// a load waits for it; while changes come, once in Timing.Commit; and otherwise with the renewals of
// the lease, to which it is offered. So the last changes before a shard is quiet may be read again by
// the worker that takes over within that time.
func (f *follower) due(before, at checkpoint.Progress, since time.Duration) bool {
	if before.FirstRead.IsZero() && !at.FirstRead.IsZero() {
		return true
	}
	if f.Mode.Publishes() && before.Position.AtHorizon() && !at.Position.AtHorizon() {
		return true // what follows needs no announcement
	}
	if at.Cutover.Since(before.Cutover) {
		return true // a cutover waits for it
	}
	return since >= min(f.Timing.Commit, f.Ledger.Lease()/3) && !at.CaughtUp
}

// rest is how long to wait after so many empty pages.
func (f *follower) rest(empty int) time.Duration {
	rest := f.Timing.Wait(empty)
	if f.tracker.Near() {
		rest = min(rest, f.Timing.Active)
	}
	return rest
}

// hold works under a lease until the shard is done, lost, or no longer held. It returns only
// what ends the process.
func (f *follower) hold(life engine.Lifecycle, lease *checkpoint.Lease, stamps sink.Stamps, state checkpoint.TableState) error {
	shard := lease.Shard()
	f.Events.ShardTaken(f.Source, shard.ID, shard.Epoch)
	f.tracker.Take(shard)
	g := task.NewGroup(lease.Context(), 0)
	g.Go("renew "+shard.ID, func(context.Context) error { return lease.Keep() })
	g.Go("follow "+shard.ID, func(ctx context.Context) error {
		defer lease.Abandon()
		held := life.Within(ctx).Noting(f.outages.Noting(ctx, shard.ID, lease.Note)).Yielding(f.Timing.Yield)
		reader := &cdc.Reader{Source: f.open(shard.StreamARN), Shard: shard.ID, Covered: covered(shard, state), AppliedTo: shard.AppliedTo}
		right := &engine.Right{Fencing: f.fencing, Renew: lease.Renew, Generation: shard.Generation, Stamps: stamps, Proved: true}
		var err error
		if right.Former, err = f.fencing.Former(held, state, shard.Generation); err == nil {
			err = f.work(g, held, lease, right, reader, state)
		}
		switch {
		case life.Draining() || releases(err):
			// If the release fails, the successor waits until the lease is over.
			if released := lease.Release(ctx); err == nil && !errors.Is(released, checkpoint.ErrLeaseLost) {
				err = released
			}
			return err
		case cdc.Is(err, cdc.Trimmed):
			return f.declare(held, life, lease, checkpoint.Trimmed, err)
		case cdc.Is(err, cdc.NotFound):
			return f.declare(held, life, lease, checkpoint.NotFound, err)
		}
		return err
	})
	err := g.Wait()
	if errors.Is(err, engine.ErrYield) {
		f.tracker.Leave(shard.ID) // until it is known that somebody else reads it
		f.outages.GiveUp(shard.ID, task.Mono(life.Work))
	} else {
		f.tracker.Forget(shard.ID)
		f.outages.Answered(shard.ID)
	}
	f.ReportLag(life.Work, f.tracker)
	f.Events.ShardLeft(f.Source, shard.ID, err)
	switch {
	case errors.Is(err, engine.ErrYield):
		_ = task.Sleep(life.Drain, f.Timing.YieldBackoff())
	case errors.Is(err, sink.ErrFenced): // until whoever raised the generation gives it to the shard
		_ = task.Sleep(life.Drain, f.Timing.Pass)
	}
	return f.End(err)
}

// releases reports whether the lease's row is given up at once when reading ended with err. A
// refused write (sink.ErrFenced) is no reason to keep it: the table was paused, cut over or begun
// anew, and while a row names a worker that has ended, that worker counts as alive.
func releases(err error) bool {
	return err == nil || engine.Orderly(err) || engine.IsAny(err, engine.ErrYield, sink.ErrFenced)
}

// declare makes the shard a gap and raises the generation, unless more gaps may come first. A worker
// that is gone between the two leaves a row from which the coordinator raises
// (checkpoint.Shard.Undeclared).
func (f *follower) declare(held, after engine.Lifecycle, lease *checkpoint.Lease, loss checkpoint.Loss, cause error) error {
	shard := lease.Shard()
	err := f.Retry(held.Finishing(), "declare a gap", func(ctx context.Context) error {
		f.hear(ctx)
		return lease.Declare(ctx, loss, cause.Error())
	})
	if err != nil {
		return err
	}
	v, err := f.Look(after.Work)
	if err == nil && checkpoint.GapsCome(v.State, v.Shards, f.Ledger.ServiceTime(after.Work)) {
		return nil // the coordinator raises once for all
	}
	// Not under the lease, which has just ended.
	return f.Raise(after, shard.Generation, checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Shard: shard.ID, Reason: cause.Error()}, nil)
}

// hear asks for the source's time if no answer has shown it yet: a worker's first one may be that a
// shard is lost. A gap without its time is better than a gap that waits.
func (f *follower) hear(ctx context.Context) {
	if !f.Ledger.ServiceTime(ctx).IsZero() {
		return
	}
	limited, cancel := task.WithTimeout(ctx, engine.GlanceTime)
	defer cancel()
	_, _ = f.database.Describe(limited, f.Source)
}

// covered is the event time up to which the shard's lineage is known to be applied: what a seek at
// the horizon is judged by. A root inherits nothing; what must not be missing of it is what the
// load rests on, or what its own first read saw, or, where nothing is loaded and nothing was read
// yet, what came since the start: the stream may be read for the first time long after it was first
// looked at.
func covered(s checkpoint.Shard, table checkpoint.TableState) time.Time {
	if !s.CoveredTo.IsZero() {
		return s.CoveredTo
	}
	at := s.FirstRead
	if started := table.Load.ImagesAt(); table.Load.Generation == s.Generation && !started.IsZero() && (at.IsZero() || started.Before(at)) {
		at = started
	}
	if at.IsZero() && !standing.Lost(table) {
		at = table.Owed()
	}
	return at
}
