package pipeline

import (
	"cmp"
	"context"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/follow"
	"github.com/dynamodb-bigtable/replicator/internal/verify"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// worker replicates the tables of this process.
type worker struct {
	*engine.Worker
	room *follow.SettleRoom // memory for pages that wait to be settled
	sums verify.SumSlots    // slots for parts of verifies
}

func newWorker(o *engine.Options, halt context.CancelCauseFunc) *worker {
	return &worker{Worker: engine.NewWorker(o, halt), room: follow.NewSettleRoom(cmp.Or(o.SettleBytes, engine.SettleBytes))}
}

// follow replicates the tables until a drain begins. With Once, it ends when all tables are
// drained.
func (w *worker) follow(life engine.Lifecycle) error {
	tables := task.NewGroup(life.Work, 0)
	joined := &engine.NameSet{Names: map[string]bool{}}
	begin := func(spec engine.Spec) {
		source := spec.Mapping.Source
		t := newTable(w, spec)
		w.Completion.Await(source, &t.Wake.Assigner)
		tables.Go("table "+source, func(work context.Context) error {
			defer joined.Remove(source) // the table may join again
			return w.serve(life.Within(work), spec, t)
		})
	}
	if w.Discover != nil {
		// This must come before all tables. Otherwise the run might end before the search has found
		// more tables.
		w.Completion.Await(discovery, new(task.Wakeup))
	}
	for _, spec := range w.Tables {
		begin(spec)
	}
	if w.Discover != nil {
		j := newJoining(w, begin, joined)
		j.discover = unlessCutOver(w.Ledger, j.discover)
		tables.Go("look for tables", func(work context.Context) error { return j.join(life.Within(work)) })
	}
	return tables.Wait()
}
