package pipeline

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/follow"
	"github.com/dynamodb-bigtable/replicator/internal/load"
	"github.com/dynamodb-bigtable/replicator/internal/stream"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// coordinator tries to acquire the table's coordinator lease. While it holds the lease, it runs the
// reconciler and the conductor.
type coordinator struct {
	*engine.Common
	reconciler   *stream.Reconciler
	conductor    *load.Conductor
	database     engine.Database
	joined       bool // a pattern matched the table, so a failure suspends only this table
	tracker      *engine.ShardTracker
	outages      *engine.Outages
	wakeAssigner *task.Wakeup
	// kept is how long the subscription keeps and redelivers an unapplied message.
	kept time.Duration
}

func newCoordinator(s *engine.Table, reconciler *stream.Reconciler, conductor *load.Conductor) *coordinator {
	return &coordinator{
		Common: s.Common, reconciler: reconciler, conductor: conductor, database: s.Database, joined: s.Spec.Joined,
		tracker: &s.Tracker, outages: &s.Outages, wakeAssigner: &s.Wake.Assigner, kept: cmp.Or(s.Worker.Kept, checkpoint.LongestKept),
	}
}

// seek waits for the coordinator lease, and coordinates the table while it holds the lease. It ends
// when a drain begins.
func (k *coordinator) seek(life engine.Lifecycle) error {
	watch := k.Ledger.NewWatch()
	waits := follow.FirstLook(k.Events.Waits)
	for !life.Draining() && life.Work.Err() == nil {
		var lease checkpoint.CoordinatorLease
		err := k.Retry(life.Finishing(), "read the coordinator lease", func(ctx context.Context) (err error) {
			lease, err = k.Ledger.CoordinatorLease(ctx, k.Source)
			return err
		})
		if err != nil {
			return err
		}
		rest := k.Timing.Pass
		if watch.CoordinatorLeaseFree(lease, task.Mono(life.Work)) {
			waits(k.Source, engine.OfCoordinator, 0, 0)
			held, err := k.Ledger.TakeCoordinatorLease(life.Work, lease)
			switch {
			case err == nil:
				if rest, err = k.serve(life, held); err != nil {
					return err
				}
			case !errors.Is(err, checkpoint.ErrTaken):
				k.Events.Retry(k.Source, "acquire the coordinator lease", k.Timing.Pass, err)
			}
		} else {
			waits(k.Source, engine.OfCoordinator, 1, k.Ledger.Lease())
		}
		_ = task.Sleep(life.Drain, rest)
	}
	return nil
}

// serve coordinates the table until a drain begins, the coordinator lease is lost or released, or
// the table is suspended. The result `rest` is how long this worker must wait before it acquires
// the lease again. serve returns only errors that must end the process.
func (k *coordinator) serve(life engine.Lifecycle, lease *checkpoint.Coordinator) (rest time.Duration, err error) {
	rest = k.Timing.Pass
	k.Events.CoordinatorTaken(k.Source, lease.Epoch())
	g := task.NewGroup(lease.Context(), 0)
	g.Go("renew the coordinator lease", func(context.Context) error { return lease.Keep() })
	g.Go("keep", func(ctx context.Context) error {
		defer lease.Abandon()
		loading := task.NewGroup(ctx, 0)
		notes := &engine.Notes{Tell: lease.Note}
		loading.Go("conduct loads", func(ctx context.Context) error { return k.conductor.Run(life.Within(ctx).Noting(notes.Slot(0)), lease) })
		if k.Mode == checkpoint.Topic {
			loading.Go("merge the applied positions", func(ctx context.Context) error { return k.merge(life.Within(ctx)) })
		}
		work := loading.Context()
		err := k.reconciler.Run(life.Within(work).Noting(k.outages.Noting(work, "", notes.Slot(1))).Yielding(k.Timing.Yield))
		if err != nil {
			loading.Fail(err)
		}
		err = loading.Wait()
		switch {
		case err == nil:
		case errors.Is(err, engine.ErrYield):
			rest = k.Timing.YieldBackoff()
			k.outages.GiveUp("", task.Mono(ctx))
		case k.suspendFor(life.Within(ctx), err):
			rest, err = k.Timing.List, nil
		case !engine.Orderly(err):
			return err
		}
		if released := lease.Release(ctx); err == nil {
			err = released
		}
		return err
	})
	err = g.Wait()
	k.Events.CoordinatorLeft(k.Source, err)
	return rest, k.End(err)
}

// merge runs while this worker coordinates the table. It combines the positions that appliers
// record, and declares a gap if messages have expired.
func (k *coordinator) merge(life engine.Lifecycle) error {
	looked := task.Mono(life.Work)
	for !life.Draining() && life.Work.Err() == nil {
		err := k.Retry(life, "merge the applied positions", func(ctx context.Context) error { return k.Ledger.MergeApplied(ctx, k.Source) })
		if now := task.Mono(life.Work); err == nil && now-looked >= k.Timing.List {
			looked = now
			err = k.expire(life)
		}
		if err != nil {
			return nil // the lease has ended or is ending
		}
		_ = task.Sleep(life.Drain, k.Timing.Pass)
	}
	return nil
}

// expire declares a gap if messages have expired: they are not applied, and the subscription no
// longer keeps them. The merged positions must be recent.
func (k *coordinator) expire(life engine.Lifecycle) error {
	return k.Retry(life, "look for expired messages", func(ctx context.Context) error {
		state, _, err := k.Ledger.Table(ctx, k.Source)
		if err != nil {
			return err
		}
		gap, found, err := k.Ledger.Expired(ctx, k.Source, k.kept)
		if err != nil || !found {
			return err
		}
		if err := k.Raise(life, state.Generation, gap, nil); !errors.Is(err, checkpoint.ErrRaised) {
			return err
		}
		return nil
	})
}

// suspendFor suspends the table if an error of its coordinator requires that. It reports whether
// the suspension is recorded.
func (k *coordinator) suspendFor(life engine.Lifecycle, err error) bool {
	reason, yes := k.unfollowable(life.Work, err)
	if !yes {
		return false
	}
	err = k.Retry(life, "suspend the table", func(ctx context.Context) error {
		return engine.Suspend(ctx, k.Ledger, k.Events, k.Source, reason)
	})
	k.tracker.SetSuspended(err == nil)
	k.wakeAssigner.Signal() // a run with Once no longer waits for this table
	return err == nil
}

// unfollowable reports whether an error means that a table that matched a pattern cannot be
// replicated at present. It returns the reason. Other tables are not affected.
func (k *coordinator) unfollowable(ctx context.Context, err error) (string, bool) {
	var stream *engine.StreamError
	var key *engine.KeyError
	var rows *engine.RowsError
	var stranger *engine.StrangerError
	switch {
	case !k.joined || err == nil:
		return "", false
	case errors.As(err, &stream) && stream.View == "":
		return "the table has no enabled stream", true
	case errors.As(err, &stream):
		return "the stream's view type " + stream.View + " does not show every new row and every removal", true
	case errors.As(err, &rows):
		return "its target table " + rows.Target + " has rows; to allow overwriting them, use replicator run --adopt-rows once", true
	case errors.As(err, &stranger):
		return stranger.Error() + "; set target.shared: true in both configurations, or choose another target", true
	case errors.As(err, &key):
		return "the primary key of the table has changed since it joined; restart the workers", true
	case errors.Is(err, engine.ErrGone):
		return engine.GoneReason, true
	case cdc.Is(err, cdc.NotFound) && engine.Gone(k.database.Describe(ctx, k.Source)):
		return engine.GoneReason, true // the table is gone, and a scan was the first to notice
	}
	return "", false
}
