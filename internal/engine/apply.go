package engine

import (
	"context"
	"maps"
	"slices"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Applier makes the batches of followers and the loader durable.
type Applier struct {
	*Retrier
	writer *sink.Writer
	// sample, if not nil, is called with each batch before the write empties the batch. It returns
	// a function that is called when the rows are durable.
	sample func(*transform.Batch) (durable func())
}

// Clean makes the entries of a sweep durable, and retries without a time limit.
func (a Applier) Clean(life Lifecycle, right *Right, table string, entries []sink.Entry) error {
	return a.Retry(life.Finishing(), "sweep", func(ctx context.Context) error {
		return right.Clean(ctx, a.writer, table, entries)
	})
}

// Write makes a batch durable, and retries without a time limit. It gives up only if it makes no
// progress while other shards wait for its page slot.
func (a Applier) Write(life Lifecycle, right *Right, batch *transform.Batch, changes []cdc.Change, slot *PageSlot) error {
	durable := func() {}
	if a.sample != nil {
		durable = a.sample(batch)
	}
	rows, open, since := len(batch.Rows), len(batch.Rows), task.Mono(life.Work)
	err := a.Retry(life.Finishing(), "write", func(ctx context.Context) error {
		err := right.Write(ctx, a.writer, batch)
		if len(batch.Rows) < open {
			open, since = len(batch.Rows), task.Mono(ctx)
		}
		if err != nil && Repeatable(err) && slot.wanted(task.Mono(ctx)-since) {
			return ErrPutBack
		}
		return err
	})
	if err == nil {
		durable()
	}
	if err == nil && len(changes) > 0 {
		a.Events.Applied(a.Source, Count(changes), rows)
	}
	if err == nil {
		for _, rule := range slices.Sorted(maps.Keys(batch.Ignored)) {
			a.Events.Ignored(a.Source, rule, batch.Ignored[rule])
		}
	}
	return err
}
