package pipeline

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// worker follows the tables of this process.
type worker struct {
	*process
	room *settleRoom // for pages that are to be settled
	sums sumSlots    // for parts of verifies
	over atomic.Bool // a table is cut over for good
}

func newWorker(o *Options, halt context.CancelCauseFunc) *worker {
	return &worker{process: newProcess(o, halt), room: newSettleRoom(cmp.Or(o.SettleBytes, settleBytes))}
}

// follow lets the tables be followed until a drain begins, or, with Once, until all are drained.
func (w *worker) follow(life lifecycle) error {
	tables := task.NewGroup(life.work, 0)
	joined := &nameSet{names: map[string]bool{}}
	begin := func(spec Table) {
		source := spec.Mapping.Source
		t := newTable(w, spec)
		w.once.await(source, &t.wake.assigner)
		tables.Go("table "+source, func(work context.Context) error {
			defer joined.remove(source) // it may join again
			return w.serve(life.within(work), spec, t)
		})
	}
	if w.Discover != nil {
		w.once.await(discovery, new(task.Wakeup)) // which comes before all tables, or those that are there might be drained without the others
	}
	for _, spec := range w.Tables {
		begin(spec)
	}
	if w.Discover != nil {
		j := newJoining(w, begin, joined)
		j.discover = unlessCutOver(w.Ledger, j.discover)
		tables.Go("look for tables", func(work context.Context) error { return j.join(life.within(work)) })
	}
	return tables.Wait()
}
