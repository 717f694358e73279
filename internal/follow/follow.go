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

// follower replicates the shards of a table, with one loop for each lease.
type follower struct {
	*engine.Common
	applier   engine.Applier
	publisher engine.Publisher
	fencing   *engine.Fencing
	mapping   *transform.Mapping
	open      func(streamARN string) cdc.Source
	database  engine.Database
	slots     *task.Limit // slots for pages
	calls     *engine.Reads
	tracker   *engine.ShardTracker
	outages   *engine.Outages
	// late is the maximum time between a change and the application's own write to the target. It
	// is 0 if the application does not write the target.
	late     time.Duration
	room     *SettleRoom
	lagBound time.Duration
	rechecks func() Recheck // nil if this process does not compare rows
	number   *engine.RecheckNumber
}

// NewFollower returns a follower. Sample, if not nil, is called with each batch before it is
// applied. Pages that wait to be settled take their memory from room.
func NewFollower(s *engine.Table, sample func(*transform.Batch) (durable func()), room *SettleRoom, rechecks func() Recheck) *follower {
	return &follower{
		Common: s.Common, applier: s.Applier(sample), publisher: s.Publisher, fencing: s.Fencing, mapping: s.Mapping, open: s.Open, database: s.Database,
		slots: s.Worker.Slots, calls: s.Worker.Calls, tracker: &s.Tracker, outages: &s.Outages,
		late: s.Spec.Late, room: room, lagBound: cmp.Or(s.Spec.LagBound, defaultLagBound),
		rechecks: rechecks, number: &s.Recheck,
	}
}

// follow replicates one shard while the lease is held and no drain has begun. The steps are: read,
// publish (if the mode publishes), fold, write, commit. The checkpoint moves only over changes that
// Write has reported as durable (I3). So a crash at any point repeats work, but loses no change.
// With dual writes, each page goes to the settler, and the settler commits (settle.go).
func (f *follower) follow(life engine.Lifecycle, lease *checkpoint.Lease, right *engine.Right, reader *cdc.Reader, state *checkpoint.TableState, settling *settler, recheck *rechecking) error {
	slot := engine.NewPageSlot(f.slots, f.calls)
	defer slot.Drop(true)
	pages := &pageReader{follower: f, reader: reader, slot: slot}
	err := f.loop(life, lease, right, pages, state, settling, recheck)
	pages.traced.end(err)
	// This is not deferred, because drop waits for a read, and a process that panics must not wait.
	pages.drop()
	return err
}

// loop reads one page after another. Thousands of these loops may wait at the same time, each with
// a stack of its own. So large values are neither kept nor passed here if they need not be.
func (f *follower) loop(life engine.Lifecycle, lease *checkpoint.Lease, right *engine.Right, pages *pageReader, state *checkpoint.TableState, settling *settler, recheck *rechecking) error {
	ctx, shard, slot := life.Work, lease.Shard(), pages.slot
	older, cut := heritage(state, &shard)
	at, committed := shard.Progress(), task.Mono(ctx)
	saved := at.Applied // in mode topic, the appliers' progress is compared with this number
	rate := engine.RateMeter{At: committed}
	changed := committed - engine.ActiveFor // when the last change was read
	if shard.Hop > cdc.RootHop && shard.FirstRead.IsZero() {
		changed = committed // a new child may have its parent's traffic
	}
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
		traced := pages.trace(life, &page)
		if at, err = f.publisher.Announce(life, lease, at, page.Changes); err != nil {
			return err
		}
		next := at
		changes := engine.Keep(&next, cut, page.Changes)
		kept := changes
		changes, err = f.publisher.Publish(traced, shard, at, page.Changes, len(page.Changes)-len(changes), slot)
		if errors.Is(err, engine.ErrPutBack) {
			continue
		} else if err != nil {
			return err
		}
		_, step := pages.step(traced, engine.SpanFold)
		batch := transform.Fold(f.mapping, changes, transform.Stamp{Generation: shard.Generation, Hop: shard.Hop, NotBefore: at.CellTime, DualWrites: settling != nil})
		batch.Latest = latestOf(batch.Latest, kept) // also counts the changes that appliers write
		batch.Read = transform.Reading{At: page.At, Mono: page.answered}
		f.own(&batch, older)
		asserted := recheck.take(&batch)
		pages.traced.folded(step, len(changes), len(batch.Rows))
		writing, step := pages.step(traced, engine.SpanWrite)
		err = f.applier.Write(writing, right, settling.timestampedBatch(&batch), changes, slot)
		step.Done(err)
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
			committing, step := pages.step(traced, engine.SpanCommit)
			err := f.Retry(committing.Finishing(), "commit", func(ctx context.Context) error { return lease.Commit(ctx, at) })
			if step.Done(err); err != nil {
				return err
			}
			committed, saved = now, at.Applied
		}
		if at.CaughtUp && !settles { // without settling, the next renewal of the lease may commit this progress
			lease.Offer(at)
		}
		if !at.CaughtUp {
			changed = task.Mono(ctx)
		}
		pages.traced.end(nil)
		// A stop ends the wait and then the loop.
		if err := pages.rest(life, f.between(empty, task.Mono(ctx)-changed)); err != nil {
			return err
		}
	}
	if settling != nil {
		return nil
	}
	return f.Retry(life.Finishing(), "commit", func(ctx context.Context) error { return lease.Commit(ctx, at) })
}

// inherits reports whether the target may have rows that are older than the shard's generation. The
// generation may have risen after the table's record was read.
func inherits(state *checkpoint.TableState, shard *checkpoint.Shard) bool {
	return state.MayHoldOlderRows() || state.Generation != shard.Generation
}

// heritage returns whether the target may have older rows (inherits), and the time before which the
// shard's changes are dropped.
func heritage(state *checkpoint.TableState, shard *checkpoint.Shard) (older bool, cut time.Time) {
	return inherits(state, shard), engine.CutOf(*shard, *state)
}

// own adds deletions to a batch. They remove cells that the rows may have for the batch's items,
// but that the items' images no longer contain.
func (f *follower) own(batch *transform.Batch, older bool) {
	if older {
		sink.OwnAll(f.mapping, batch)
	} else {
		sink.OwnRemoved(f.mapping, batch)
	}
}

// latestOf returns the timestamp for the cells of the last change: the latest time of all changes.
// Timestamps must not decrease.
func latestOf(at time.Time, changes []cdc.Change) time.Time {
	for _, c := range changes {
		if c.Time.After(at) {
			at = c.Time
		}
	}
	return at
}

// finish marks the shard as done. Its last page must be durable.
func (f *follower) finish(life engine.Lifecycle, lease *checkpoint.Lease, at checkpoint.Progress) error {
	err := f.Retry(life.Finishing(), "finish a shard", func(ctx context.Context) error { return lease.Finish(ctx, at) })
	if err == nil {
		f.Events.ShardDone(f.Source, lease.Shard().ID)
	}
	return err
}

// Advance returns the progress after a page. All changes of the page must be durable.
func Advance(at checkpoint.Progress, page cdc.Page, cellTime, sent time.Time) checkpoint.Progress {
	at.ReadAt, at.CaughtUp = sent, len(page.Changes) == 0
	at.Applied += uint64(len(page.Changes))
	if at.FirstRead.IsZero() {
		at.FirstRead = page.At // on the service's clock, like all times that decide about coverage (H64)
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

// due reports whether a checkpoint must be written now. The first read of a shard is committed
// immediately, because a load waits for it. While changes arrive, a checkpoint is written once per
// Timing.Commit. Other progress is committed with the next renewal of the lease. So if another
// worker acquires the shard before that renewal, it may read the last changes again.
func (f *follower) due(before, at checkpoint.Progress, since time.Duration) bool {
	if before.FirstRead.IsZero() && !at.FirstRead.IsZero() {
		return true
	}
	if f.Mode.Publishes() && before.Position.AtHorizon() && !at.Position.AtHorizon() {
		return true // after this checkpoint, the next pages need no announcement
	}
	if at.Cutover.Since(before.Cutover) {
		return true // a cutover waits for this progress
	}
	return since >= min(f.Timing.Commit, f.Ledger.Lease()/3) && !at.CaughtUp
}

// between returns the time from one request for a shard's changes to the next. While a cutover
// waits for changes, every shard counts as active.
func (f *follower) between(empty int, quiet time.Duration) time.Duration {
	if f.tracker.Near() {
		quiet = 0
	}
	return f.Timing.Between(empty, quiet)
}

// hold replicates a shard under its lease until the shard is done or a gap, or the lease ends. It
// returns only errors that must end the process.
func (f *follower) hold(life engine.Lifecycle, lease *checkpoint.Lease, stamps sink.Stamps, state *checkpoint.TableState) error {
	shard := lease.Shard()
	f.Events.ShardTaken(f.Source, shard.ID, shard.Epoch)
	f.tracker.Take(shard)
	g := task.NewGroup(lease.Context(), 0)
	g.Go("renew "+shard.ID, func(context.Context) error { return lease.Keep() })
	g.Go("follow "+shard.ID, func(ctx context.Context) error {
		defer lease.Abandon()
		held := life.Within(ctx).Noting(f.outages.Noting(ctx, shard.ID, lease.Note)).Yielding(f.Timing.Yield)
		right, err := f.right(held, lease, stamps, state)
		if err == nil {
			err = f.work(g, held, lease, right, f.reader(lease, state), state)
		}
		switch {
		case life.Draining() || releases(err):
			// If the release fails, the next owner must wait until the lease expires.
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
		f.tracker.Leave(shard.ID) // its lag is reported until another worker reads the shard
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
	// The generation has risen. This worker waits until the shard's row has the new one.
	case errors.Is(err, sink.ErrFenced):
		_ = task.Sleep(life.Drain, f.Timing.Pass)
	}
	return f.End(err)
}

// reader returns a reader for the shard of a lease.
func (f *follower) reader(lease *checkpoint.Lease, state *checkpoint.TableState) *cdc.Reader {
	shard := lease.Shard()
	return &cdc.Reader{Source: f.open(shard.StreamARN), Shard: shard.ID, Covered: covered(shard, *state), AppliedTo: shard.AppliedTo}
}

// right returns the right to write the rows of a leased shard.
func (f *follower) right(held engine.Lifecycle, lease *checkpoint.Lease, stamps sink.Stamps, state *checkpoint.TableState) (*engine.Right, error) {
	generation := lease.Shard().Generation
	former, err := f.fencing.Former(held, *state, generation)
	return &engine.Right{Fencing: f.fencing, Renew: lease.Renew, Generation: generation, Stamps: stamps, Proved: true, Former: former}, err
}

// releases reports whether the lease is released at once after the replication ended with err. It
// is released even after a rejected write (sink.ErrFenced): the table was paused, cut over or
// loaded again. As long as a shard's row names a worker, that worker counts as alive.
func releases(err error) bool {
	return err == nil || engine.Orderly(err) || engine.IsAny(err, engine.ErrYield, sink.ErrFenced)
}

// declare marks the shard as a gap and raises the generation. If more gaps are expected, it leaves
// the raise to the coordinator, which raises once for all of them. If a worker ends between the
// mark and the raise, the coordinator finds the mark and raises (checkpoint.Shard.Undeclared).
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
		return nil // the coordinator raises once for all gaps
	}
	// The raise cannot use the lease, which has just ended.
	return f.Raise(after, shard.Generation, checkpoint.DeclaredGap{Kind: checkpoint.KindStream, Shard: shard.ID, Reason: cause.Error()}, nil)
}

// hear requests the source's time if no answer has shown it yet. The first answer that a worker
// receives may already say that a shard is lost. If the request fails, the gap is declared without
// a time, because a gap must not wait.
func (f *follower) hear(ctx context.Context) {
	if !f.Ledger.ServiceTime(ctx).IsZero() {
		return
	}
	limited, cancel := task.WithTimeout(ctx, engine.GlanceTime)
	defer cancel()
	_, _ = f.database.Describe(limited, f.Source)
}

// covered returns the event time up to which all changes of the shard's lineage are applied. If
// changes after this time may be trimmed, a read from the horizon is a gap. A child inherits this
// time from its parent. A root uses the time on which the load relies, or the time of its own first
// read, whichever is earlier. Without either, it uses the time of the first start. The first read
// of a stream may be long after its first listing.
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
