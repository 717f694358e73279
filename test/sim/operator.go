package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/parked"
	"github.com/dynamodb-bigtable/replicator/internal/repair"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// operator gives the commands `status`, `parked list`, `parked retry` and `parked drop` while the
// workers run.
type operator struct {
	s     *simulation
	drops float64 // the share of decisions that drop an item
}

// begin lets the operator check and decide from time to time, until the faults are over.
func (o *operator) begin() {
	o.drops = o.s.drops / 2
	p := o.s.World.NewProcess("operator")
	p.Go("status", func() {
		for task.Sleep(p.Context(), o.s.World.UpTo(40*time.Minute)) == nil && !o.s.peaceful {
			o.s.checkStatus(p.Context())
		}
	})
	if o.s.retries == 0 {
		return
	}
	every := o.s.limit(time.Duration(o.s.retries*float64(6*time.Hour)) + 20*time.Minute)
	p.Go("parked items", func() {
		for task.Sleep(p.Context(), o.s.World.UpTo(2*every)) == nil && !o.s.peaceful {
			if err := o.decide(p.Context()); err != nil {
				o.s.World.Tracef("the operator gives up for now: %v", err)
			}
		}
	})
}

// list returns the parked records, by item.
func (o *operator) list(ctx context.Context) ([][]parked.Record, error) {
	chosen := parked.Selection{Table: o.s.Mapping.Source, All: true}
	records, err := chosen.Find(ctx, o.lot())
	return parked.ByItem(records), err
}

func (o *operator) lot() *sink.Parking {
	return sink.NewParking(model.Target{Bigtable: o.s.Target}, "default")
}

// decision returns a decision about records, and the buffer of the command's output.
func (o *operator) decision(records ...parked.Record) (*parked.Decision, *bytes.Buffer) {
	out := &bytes.Buffer{}
	return &parked.Decision{
		Console: &terminal.Console{Stdout: out, Stderr: io.Discard, Output: "json"}, Cfg: o.s.config(), Log: slog.New(slog.DiscardHandler),
		Connect: func(context.Context) (repair.Source, error) { return desk{o.s}, nil },
		Target:  &hasty{Target: model.Target{Bigtable: o.s.Target}, s: o.s}, Lot: o.lot(), Chosen: records,
	}, out
}

// decide lists the parked items, waits, and decides about each.
func (o *operator) decide(ctx context.Context) error {
	items, err := o.list(ctx)
	if err != nil {
		return err
	}
	looked := o.s.World.Elapsed()
	if err := task.Sleep(ctx, o.s.World.UpTo(6*time.Minute)); err != nil {
		return err
	}
	for _, item := range items {
		if o.s.peaceful {
			return nil
		}
		key := item[0].Key
		o.s.rec.decided[key] = looked
		if !o.s.World.Chance(o.drops) {
			if err := o.retry(ctx, item); err != nil && !diag.Has(err, diag.ItemsParked) {
				return err
			}
			continue
		}
		o.s.World.Inject("parked item given up")
		o.s.rec.gaveUp[key] = looked
		d, _ := o.decision(item...)
		if err := d.Drop(ctx, true); err != nil {
			return err
		}
	}
	return nil
}

// retry repairs one item. Records that are parked meanwhile stay.
func (o *operator) retry(ctx context.Context, item []parked.Record) error {
	d, out := o.decision(item...)
	err := d.Retry(ctx)
	var document struct{ Resolved int }
	if failed := json.Unmarshal(out.Bytes(), &document); failed != nil {
		o.s.fail("I9", "the document of a retry: %v", failed)
	}
	if document.Resolved > 0 {
		o.s.World.Inject("parked item retried")
	}
	o.s.World.Tracef("the operator retries item %s: %s %v", o.s.Source.NameOf(item[0].Change.Keys), out, err)
	return err
}

// hasty is the target of a retry that may be interrupted between two rows of an item.
type hasty struct {
	model.Target
	s    *simulation
	rows int // rows written so far
}

func (h *hasty) Apply(ctx context.Context, r *sink.Request) (bool, error) {
	if h.rows++; h.rows > 1 && !h.s.peaceful && h.s.World.Rand().IntN(2) == 0 {
		h.s.World.Inject("retry cut short")
		return false, model.Fail("CheckAndMutateRow", cdc.Unavailable)
	}
	return h.Target.Apply(ctx, r)
}

// Cluster is the cluster to which the app profile routes.
func (h *hasty) Cluster(ctx context.Context) (string, error) {
	if !h.s.plan.clustered {
		return "", nil
	}
	return h.s.whichCluster(ctx)
}

// desk is the source as an operator's machine reads it.
type desk struct{ s *simulation }

func (d desk) Describe(ctx context.Context, table string) (backfill.Description, error) {
	found, err := d.s.Source.Describe(ctx, table)
	found.PrimaryKey = d.s.Mapping.PrimaryKey
	return found, err
}

// Get reads an item. Sometimes the answer is slow, and the item changes before it arrives.
func (d desk) Get(ctx context.Context, _ string, keys attribute.Item) (attribute.Item, bool, error) {
	item, err := d.s.Source.Get(ctx, keys)
	if err == nil && !d.s.peaceful && d.s.World.Rand().IntN(2) == 0 {
		d.s.World.Inject("item read slowly")
		for range 8 {
			if d.s.Source.Now(keys).Equal(item) {
				d.s.write()
			}
		}
		err = task.Sleep(ctx, d.s.World.UpTo(15*time.Second))
	}
	return item, item.Exists(), err
}

// last retries all parked items once nothing changes or fails any more. Items that can be stored
// are stored, and items that the source lacks are forgotten.
func (o *operator) last(ctx context.Context) error {
	items, err := o.list(ctx)
	if err != nil {
		return err
	}
	for _, item := range items {
		keys := item[0].Change.Keys
		o.s.rec.decided[item[0].Key] = o.s.World.Elapsed()
		err := o.retry(ctx, item)
		now := o.s.Source.Now(keys)
		switch storable := !now.Exists() || o.s.rec.layout.place(now).held(); {
		case err == nil, diag.Has(err, diag.RetryNotYet): // a row without a version waits until the next load is admissible
		case !diag.Has(err, diag.ItemsParked):
			return err
		case storable:
			return fmt.Errorf("the changes of %s stay parked: %w", o.s.Source.NameOf(keys), err)
		}
	}
	return nil
}

// retryAll retries all parked items once more (I9).
func (s *simulation) retryAll() {
	p, done := s.World.NewProcess("operator in peace"), s.World.NewEvent()
	var err error
	p.Go("parked items", func() { err = (&operator{s: s}).last(p.Context()); done.Set() })
	if done.Wait(s.ctx) == nil && err != nil {
		s.fail("I9", "what is parked cannot be retried: %v", err)
	}
	for _, d := range s.rec.unequal(s.since(s.State())) {
		s.fail("I9", "%s, after what is parked was retried", d)
	}
}
