package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// operator is somebody who decides about parked items while the workers run: they are read from the
// source again, as by `parked retry`, or given up, as by `parked drop`.
type operator struct {
	s     *simulation
	lot   *sink.Parking
	drops float64 // which part of the decisions is to give up
}

// newOperator makes one who does nothing yet.
func newOperator(s *simulation) *operator {
	return &operator{s: s, lot: sink.NewParking(model.Target{Bigtable: s.Target}, "default")}
}

// begin lets the operator decide about some of what is parked, now and then, until there is peace.
func (o *operator) begin() {
	o.drops = o.s.drops / 2
	every := o.s.limit(time.Duration(o.s.retries*float64(6*time.Hour)) + 20*time.Minute)
	p := o.s.World.NewProcess("operator")
	p.Go("parked items", func() {
		for task.Sleep(p.Context(), o.s.World.UpTo(2*every)) == nil && !o.s.peaceful {
			if err := o.decide(p.Context()); err != nil {
				o.s.World.Tracef("the operator gives up for now: %v", err)
			}
		}
	})
}

// parkedItem is what one item has parked.
type parkedItem struct {
	key     string
	refs    []sink.Ref
	records []transform.Parked
}

func (o *operator) decide(ctx context.Context) error {
	ctx, cancel := task.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	items, err := o.parked(ctx)
	for _, item := range items {
		if err != nil || o.s.peaceful {
			return err
		}
		o.s.rec.decided[item.key] = o.s.World.Elapsed()
		if !o.s.World.Chance(o.drops) {
			err = o.retry(ctx, item)
			continue
		}
		o.s.World.Inject("parked item given up")
		o.s.rec.gaveUp[item.key] = o.s.World.Elapsed()
		err = o.remove(ctx, item)
	}
	return err
}

// parked lists what is parked, by item.
func (o *operator) parked(ctx context.Context) (items []*parkedItem, err error) {
	err = o.lot.List(ctx, o.s.Mapping.Source, func(ref sink.Ref, p transform.Parked) error {
		if n := len(items); n == 0 || items[n-1].key != p.Key {
			items = append(items, &parkedItem{key: p.Key})
		}
		last := items[len(items)-1]
		last.refs, last.records = append(last.refs, ref), append(last.records, p)
		return nil
	})
	return items, err
}

func (o *operator) remove(ctx context.Context, item *parkedItem) error {
	for _, ref := range item.refs {
		if err := o.lot.Remove(ctx, ref); err != nil {
			return err
		}
	}
	return nil
}

// retry repairs one item. What is parked meanwhile stays.
func (o *operator) retry(ctx context.Context, item *parkedItem) error {
	ledger, err := o.s.Ledger(ctx)
	if err != nil {
		return err
	}
	target := &hasty{Target: model.Target{Bigtable: o.s.Target}, s: o.s}
	r := &sink.Repairer{
		Mapping: o.s.Mapping, Rows: target, Table: target, Item: o.item,
		Fence: fence.Marks(ledger),
		Current: func(ctx context.Context) (uint32, error) {
			state, _, err := ledger.Table(ctx, o.s.Mapping.Source)
			return state.Generation, err
		},
		Generation: func(ctx context.Context, at time.Time) (uint32, error) {
			state, _, err := ledger.Table(ctx, o.s.Mapping.Source)
			if err != nil {
				return 0, err
			}
			shards, err := ledger.Shards(ctx, o.s.Mapping.Source)
			if err != nil {
				return 0, err
			}
			return state.Generation, checkpoint.Admissible(state, shards, at)
		},
	}
	done, err := r.RepairParked(ctx, item.records...)
	var bad *sink.BadItem
	switch {
	case errors.As(err, &bad), errors.Is(err, sink.ErrOvertaken), errors.Is(err, sink.ErrRepairs):
		return nil // it stays parked
	case err != nil:
		return err
	}
	o.s.World.Inject("parked item retried")
	o.s.World.Tracef("the operator has retried item %s: it is there %v, %d rows are written", o.s.Source.NameOf(item.records[0].Change.Keys), done.Present, done.Written)
	return o.remove(ctx, item)
}

// hasty is the target of a retry that may be cut short between two rows of an item.
type hasty struct {
	model.Target
	s    *simulation
	rows int // written before
}

func (h *hasty) Apply(ctx context.Context, r *sink.Request) (bool, error) {
	if h.rows++; h.rows > 1 && !h.s.peaceful && h.s.World.Rand().IntN(2) == 0 {
		h.s.World.Inject("retry cut short")
		return false, model.Fail("CheckAndMutateRow", cdc.Unavailable)
	}
	return h.Target.Apply(ctx, r)
}

// item reads an item consistently. Now and then the answer takes minutes, in which the item may
// change, and the row.
func (o *operator) item(ctx context.Context, keys attribute.Item) (attribute.Item, bool, error) {
	item, err := o.s.Source.Get(ctx, keys)
	if err == nil && !o.s.peaceful && o.s.World.Rand().IntN(2) == 0 {
		o.s.World.Inject("item read slowly")
		err = task.Sleep(ctx, o.s.World.UpTo(6*time.Minute))
	}
	return item, item.Exists(), err
}

// last retries everything that is parked, when nothing changes and nothing fails any more: what can
// be stored is stored, and what the source does not hold is forgotten.
func (o *operator) last(ctx context.Context) error {
	items, err := o.parked(ctx)
	for _, item := range items {
		if err == nil {
			o.s.rec.decided[item.key] = o.s.World.Elapsed()
			err = o.retry(ctx, item)
		}
		var hole *checkpoint.NotAdmissible
		if errors.As(err, &hole) {
			err = nil // a row without a version waits until the next load is admissible
			continue
		}
		if now := o.s.Source.Now(item.records[0].Change.Keys); err == nil && (!now.Exists() || o.s.rec.layout.place(now).held()) {
			left := 0
			err = o.lot.OfItem(ctx, o.s.Mapping.Source, item.key, func(sink.Ref, transform.Parked) error { left++; return nil })
			if err == nil && left > 0 {
				err = fmt.Errorf("%d changes of %s stay parked", left, o.s.Source.NameOf(item.records[0].Change.Keys))
			}
		}
	}
	return err
}

// retryAll is a last look at what is parked (I9).
func (s *simulation) retryAll() {
	p, done := s.World.NewProcess("operator in peace"), s.World.NewEvent()
	var err error
	p.Go("parked items", func() { err = newOperator(s).last(p.Context()); done.Set() })
	if done.Wait(s.ctx) == nil && err != nil {
		s.fail("I9", "what is parked cannot be retried: %v", err)
	}
	for _, d := range s.rec.unequal(s.since(s.State())) {
		s.fail("I9", "%s, after what is parked was retried", d)
	}
}
