// Package pipeline decides which loops run for each table. All loops of a table share an
// engine.Table. The assigner leases shards, and a follower works under each lease. The loader and
// the verifier lease parts of loads and verifies. Under the coordinator lease, the reconciler and
// the conductor work.
package pipeline

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Run replicates the tables until ctx ends, and then stops cleanly. Within Timing.Grace it ends
// reads, writes and commits pages that were read, and releases leases. It returns nil after a clean
// stop, and with Once when everything is drained. Any other return is an error that no retry fixes.
func Run(ctx context.Context, o engine.Options) error {
	o.Timing = o.Timing.OrDefault(o.Ledger.Lease())
	o.Events = o.Events.OrSilent()
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
	heeding, unheeded := context.WithCancel(work) // until nothing is written any more, also after a drain has begun
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
		// A call that still waited at the end of the grace reports that in the words of its client.
		// The next worker resumes from the last commit.
		return nil
	}
	return err
}
