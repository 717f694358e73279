package pipeline

import (
	"cmp"
	"context"
	"sync/atomic"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// worker is what the tables of this process share.
type worker struct {
	*Options
	halt   context.CancelCauseFunc
	shares *shares
	once   *completion // nil: they are followed for ever
	calls  *reads
	slots  *task.Limit // for pages
	room   *settleRoom // for those that are to be settled
	sums   sumSlots    // for parts of verifies
	over   atomic.Bool // a table is cut over for good
}

func newWorker(o *Options, halt context.CancelCauseFunc) *worker {
	w := &worker{Options: o, halt: halt, shares: &shares{}, calls: &reads{}, slots: task.NewLimit(int64(cmp.Or(o.Pages, pageSlots))), room: &settleRoom{left: cmp.Or(o.SettleBytes, settleBytes)}}
	if o.Once {
		w.once = &completion{}
	}
	return w
}

// openWithout opens sources of streams whose calls a stop ends, and that show no canaries.
func (w *worker) openWithout(canaries *canary.Set) func(streamARN string) cdc.Source {
	return func(streamARN string) cdc.Source {
		return stoppableSource{w.Open(streamARN), w.calls, w.Ledger.Heard, canaries}
	}
}

// follow lets the tables be followed until a drain begins, or, with Once, until all are drained.
func (w *worker) follow(life lifecycle) error {
	tables := task.NewGroup(life.work, 0)
	joined := &nameSet{names: map[string]bool{}}
	begin := func(spec Table) {
		source := spec.Mapping.Source
		t := newTable(w, spec)
		w.once.await(source, &t.wakeAssigner)
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

// common is what the parts of a table share; nil: of what belongs to no table.
func (w *worker) common(spec *Table) *common {
	c := &common{retrier: &retrier{events: w.Events}, ledger: w.Ledger, floors: w.Floors, timing: w.Timing, halt: w.halt, mode: w.Mode}
	if spec != nil {
		c.source, c.mappingHash = spec.Mapping.Source, spec.MappingHash
	}
	return c
}
