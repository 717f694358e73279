// Package pipeline decides which loops run for each table. All loops of a table share an
// engine.Table. The assigner acquires leases of shards, and a follower replicates each shard. The
// loader and the verifier lease parts of loads and verifies. The reconciler and the conductor run
// under the coordinator lease.
package pipeline

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Run replicates the tables until ctx ends, and then stops cleanly. A clean stop ends the reads,
// writes and commits the pages that were read, and releases the leases, within Timing.Grace. Run
// returns nil after a clean stop, and with Once when all tables are drained. Otherwise it returns
// an error that no retry can fix.
func Run(ctx context.Context, o engine.Options) error {
	o.Timing = o.Timing.OrDefault(o.Ledger.Lease())
	o.Events = o.Events.OrSilent()
	ctx, calls := task.WithCrew(ctx)
	defer calls()
	work, abandon := context.WithCancelCause(context.WithoutCancel(ctx))
	defer abandon(context.Canceled)
	all := task.NewGroup(work, 0)
	finished := task.NewEvent(ctx)
	drain, halt := context.WithCancelCause(ctx)
	defer halt(context.Canceled)
	w := newWorker(&o, halt)
	watching, watched := context.WithCancel(drain)
	defer watched()
	if o.Cluster != nil {
		common := w.Common(nil)
		watch := &engine.ClusterWatch{Retrier: common.Retrier, Ledger: o.Ledger, Ask: o.Cluster, Every: o.Timing.List, End: common.End}
		all.Go("watch the cluster", func(context.Context) error { return watch.Run(engine.Until(watching)) })
	}
	// This context continues after a drain has begun, until this process makes no more writes.
	heeding, unheeded := context.WithCancel(work)
	all.Go("heed cutovers", func(context.Context) error { o.Register.Heed(heeding, o.Timing.Pass, o.Timing.Heed); return nil })
	all.Go("tables", func(work context.Context) error {
		defer unheeded()
		defer finished.Set()
		defer watched()
		return w.follow(engine.Lifecycle{Drain: drain, Work: work})
	})
	all.Go("grace", func(work context.Context) error {
		if finished.Wait(drain) == nil || work.Err() != nil {
			return nil
		}
		w.Calls.Cancel(context.Cause(drain))
		limited, cancel := task.WithTimeout(work, o.Timing.Grace)
		late := finished.Wait(limited) != nil
		cancel()
		if late {
			abandon(context.Cause(drain))
		}
		return nil
	})
	err := all.Wait()
	_ = o.Register.Leave(ctx) // if it fails, the record stays, which is safe
	if cause := context.Cause(drain); engine.Orderly(cause) {
		return cause
	}
	if ctx.Err() != nil && !engine.Fatal(err) {
		// This is the error of a call that was still waiting at the end of the grace time. It is
		// not returned, because the next worker resumes from the last commit.
		return nil
	}
	return err
}
