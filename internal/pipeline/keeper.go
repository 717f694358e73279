package pipeline

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// keeper holds the table's keeper lease, if no other worker does, and lets the reconciler and the
// conductor work under it.
type keeper struct {
	*common
	reconciler   *reconciler
	conductor    *conductor
	database     Database
	joined       bool // what keeps the table from being followed suspends it
	tracker      *shardTracker
	outages      *outages
	wakeAssigner *task.Wakeup
	kept         time.Duration // how long a message is brought that is not applied
}

func newKeeper(s *shared, reconciler *reconciler, conductor *conductor) *keeper {
	return &keeper{
		common: s.common, reconciler: reconciler, conductor: conductor, database: s.database, joined: s.spec.Joined,
		tracker: &s.tracker, outages: &s.outages, wakeAssigner: &s.wake.assigner, kept: cmp.Or(s.process.Kept, checkpoint.LongestKept),
	}
}

// seek waits for the keeper lease, and keeps the table while it has it, until a drain begins.
func (k *keeper) seek(life lifecycle) error {
	watch := k.ledger.NewWatch()
	waits := firstLook(k.events.Waits)
	for !life.draining() && life.work.Err() == nil {
		var lease checkpoint.KeeperLease
		err := k.retry(life.finishing(), "look at the keeper's seat", func(ctx context.Context) (err error) {
			lease, err = k.ledger.KeeperLease(ctx, k.source)
			return err
		})
		if err != nil {
			return err
		}
		rest := k.timing.Pass
		if watch.KeeperLeaseFree(lease, task.Mono(life.work)) {
			waits(k.source, OfKeeper, 0, 0)
			held, err := k.ledger.TakeKeeperLease(life.work, lease)
			switch {
			case err == nil:
				if rest, err = k.serve(life, held); err != nil {
					return err
				}
			case !errors.Is(err, checkpoint.ErrTaken):
				k.events.Retry(k.source, "take the keeper's seat", k.timing.Pass, err)
			}
		} else {
			waits(k.source, OfKeeper, 1, k.ledger.Lease())
		}
		_ = task.Sleep(life.drain, rest)
	}
	return nil
}

// serve keeps the table until a drain begins, the keeper lease is lost or left to another, or the
// table is suspended, and says how long to stay away from it. The error is only what ends the
// process.
func (k *keeper) serve(life lifecycle, lease *checkpoint.Keeper) (rest time.Duration, err error) {
	rest = k.timing.Pass
	k.events.KeeperTaken(k.source, lease.Epoch())
	g := task.NewGroup(lease.Context(), 0)
	g.Go("renew the seat", func(context.Context) error { return lease.Keep() })
	g.Go("keep", func(ctx context.Context) error {
		defer lease.Abandon()
		loading := task.NewGroup(ctx, 0)
		notes := &notes{tell: lease.Note}
		loading.Go("conduct loads", func(ctx context.Context) error { return k.conductor.run(life.within(ctx).noting(notes.slot(0)), lease) })
		if k.mode == checkpoint.Topic {
			loading.Go("merge what is applied", func(ctx context.Context) error { return k.merge(life.within(ctx)) })
		}
		work := loading.Context()
		err := k.reconciler.run(life.within(work).noting(k.outages.noting(work, "", notes.slot(1))).yielding(k.timing.Yield))
		if err != nil {
			loading.Fail(err)
		}
		err = loading.Wait()
		switch {
		case err == nil:
		case errors.Is(err, ErrYield):
			rest = k.timing.yieldBackoff()
			k.outages.giveUp("", task.Mono(ctx))
		case k.suspendFor(life.within(ctx), err):
			rest, err = k.timing.List, nil
		case !orderly(err):
			return err
		}
		if released := lease.Release(ctx); err == nil {
			err = released
		}
		return err
	})
	err = g.Wait()
	k.events.KeeperLeft(k.source, err)
	return rest, k.end(err)
}

// merge keeps together what appliers note, while this worker keeps the table, and declares a gap
// where messages have expired.
func (k *keeper) merge(life lifecycle) error {
	looked := task.Mono(life.work)
	for !life.draining() && life.work.Err() == nil {
		err := k.retry(life, "merge what is applied", func(ctx context.Context) error { return k.ledger.MergeApplied(ctx, k.source) })
		if now := task.Mono(life.work); err == nil && now-looked >= k.timing.List {
			looked = now
			err = k.expire(life)
		}
		if err != nil {
			return nil // the lease has ended, or is about to
		}
		_ = task.Sleep(life.drain, k.timing.Pass)
	}
	return nil
}

// expire declares a gap of messages that no subscription keeps any more. What is merged is fresh.
func (k *keeper) expire(life lifecycle) error {
	return k.retry(life, "look for expired messages", func(ctx context.Context) error {
		state, _, err := k.ledger.Table(ctx, k.source)
		if err != nil {
			return err
		}
		gap, found, err := k.ledger.Expired(ctx, k.source, k.kept)
		if err != nil || !found {
			return err
		}
		if err := k.raise(life, state.Generation, gap, nil); !errors.Is(err, checkpoint.ErrRaised) {
			return err
		}
		return nil
	})
}

// suspendFor suspends the table if that is what an error of its keeper asks for. It returns false
// if it does not, or if that could not be noted.
func (k *keeper) suspendFor(life lifecycle, err error) bool {
	reason, yes := k.unfollowable(life.work, err)
	if !yes {
		return false
	}
	err = k.retry(life, "set the table aside", func(ctx context.Context) error {
		return suspend(ctx, k.ledger, k.events, k.source, reason)
	})
	k.tracker.setSuspended(err == nil)
	k.wakeAssigner.Signal() // with Once there is nothing to wait for any more
	return err == nil
}

// unfollowable is why a table of a pattern cannot be followed for now, if that is what an error
// says; the other tables go on.
func (k *keeper) unfollowable(ctx context.Context, err error) (string, bool) {
	var stream *StreamError
	var key *KeyError
	var rows *RowsError
	switch {
	case !k.joined || err == nil:
		return "", false
	case errors.As(err, &stream) && stream.View == "":
		return "the table has no enabled stream", true
	case errors.As(err, &stream):
		return "the stream's view type " + stream.View + " does not give every row and its removal", true
	case errors.As(err, &rows):
		return "its target table " + rows.Target + " holds rows; if they may be written over, replicator run --adopt-rows, once", true
	case errors.As(err, &key):
		return "the table has another primary key than when it joined; restart the workers", true
	case errors.Is(err, errGone):
		return GoneReason, true
	case cdc.Is(err, cdc.NotFound) && gone(k.database.Describe(ctx, k.source)):
		return GoneReason, true // a scan came to know it first
	}
	return "", false
}
