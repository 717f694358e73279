package pipeline

import (
	"context"
	"maps"
	"slices"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// applier makes durable what followers and the loader read.
type applier struct {
	*retrier
	writer *sink.Writer
	// sample, if not nil, looks at a batch before it is written, which empties the batch. What it
	// returns is called when the rows are durable.
	sample func(*transform.Batch) (durable func())
}

// write makes a batch durable, however long it takes, unless its page slot is wanted and it gets no
// further.
func (a applier) write(life lifecycle, right *right, batch *transform.Batch, changes []cdc.Change, slot *pageSlot) error {
	durable := func() {}
	if a.sample != nil {
		durable = a.sample(batch)
	}
	rows, open, since := len(batch.Rows), len(batch.Rows), task.Mono(life.work)
	err := a.retry(life.finishing(), "write", func(ctx context.Context) error {
		err := right.write(ctx, a.writer, batch)
		if len(batch.Rows) < open {
			open, since = len(batch.Rows), task.Mono(ctx)
		}
		if err != nil && repeatable(err) && slot.wanted(task.Mono(ctx)-since) {
			return errPutBack
		}
		return err
	})
	if err == nil {
		durable()
	}
	if err == nil && len(changes) > 0 {
		a.events.Applied(a.source, count(changes), rows)
	}
	if err == nil {
		for _, rule := range slices.Sorted(maps.Keys(batch.Ignored)) {
			a.events.Ignored(a.source, rule, batch.Ignored[rule])
		}
	}
	return err
}
