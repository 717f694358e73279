// Package pipeline is the engine: the loops of a worker. The work on a table has four parts, each a
// struct with what it needs of the others: the assigner leases shards, a follower works under each
// lease, and under the keeper lease the reconciler makes the ledger agree with stream and target,
// and the loader copies what the table already holds. A follower is the path of a change:
//
//	GetRecords ─► cdc.Reader.Read ─► transform.Fold ─► sink.Writer.Write ─► checkpoint.Lease.Commit
//
// A lifecycle says how long each goes on, and the retrier is the only place that backs off. All
// waiting and concurrency goes through internal/task, so that the simulation runs these very loops.
package pipeline

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Run replicates the tables until ctx ends, which is a clean stop: reads are ended, pages that were
// read are written and committed and leases are released, within Timing.Grace. It returns nil after
// a clean stop, and with Once when everything is drained. Any other return is an error that no
// repeat mends.
func Run(ctx context.Context, o Options) error {
	o.Timing = o.Timing.orDefault(o.Ledger.Lease())
	o.Events = o.Events.orSilent()
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
		watch := &clusterWatch{common: w.common(nil), ask: o.Cluster}
		all.Go("watch the cluster", func(context.Context) error { return watch.run(until(watching)) })
	}
	all.Go("tables", func(work context.Context) error {
		defer finished.Set()
		defer watched()
		return w.follow(lifecycle{drain: drain, work: work})
	})
	all.Go("grace", func(work context.Context) error {
		if finished.Wait(drain) == nil || work.Err() != nil {
			return nil
		}
		w.calls.cancel(context.Cause(drain))
		limited, cancel := task.WithTimeout(work, o.Timing.Grace)
		late := finished.Wait(limited) != nil
		cancel()
		if late {
			abandon(context.Cause(drain))
		}
		return nil
	})
	err := all.Wait()
	if cause := context.Cause(drain); orderly(cause) {
		return cause
	}
	if err == nil && ctx.Err() == nil && w.over.Load() {
		return checkpoint.ErrCutOver
	}
	if ctx.Err() != nil && !fatal(err) {
		// What was still waiting when the grace was over says so in the words of its client.
		// Whoever goes on, goes on from the last commit.
		return nil
	}
	return err
}
