package load

import (
	"context"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// sweep ends the running pass if all of its parts are done, or begins the next.
func (c *Conductor) sweep(life engine.Lifecycle, state checkpoint.TableState) error {
	ctx := life.Work
	sweep := state.Load.Sweep
	if sweep.Parts > 0 {
		rows, err := c.Ledger.Parts(ctx, state, checkpoint.PhaseSweep(sweep.Pass))
		if err != nil {
			return err
		}
		sums := checkpoint.PartsDone(rows, sweep.Parts)
		if !sums.Complete() {
			return nil
		}
		if err := c.unchanged(life, state); err != nil {
			return err
		}
		if sums.Ends(sweep.Pass) {
			if err := c.call(life, func(ctx context.Context) error { return c.witnesses.Withdraw(ctx, state) }); err != nil {
				return err
			}
		}
		err = c.call(life, func(ctx context.Context) error { _, err := c.Ledger.CompletePass(ctx, state, sums); return err })
		if err != nil {
			return err
		}
		c.wake.Signal()
		c.wakeAssigner.Signal()
		return nil
	}
	pass, due := state.NextPass()
	if !due || state.Load.Paused != "" {
		return nil
	}
	ranges := sweep.Ranges
	if len(ranges) == 0 {
		var former []sink.Former
		var tables []string
		err := c.call(life, func(ctx context.Context) (err error) { former, tables, err = c.former(ctx, state); return err })
		if err != nil {
			return err
		}
		if err := c.quiet(life, tables); err != nil {
			return err
		}
		err = c.call(life, func(ctx context.Context) (err error) { ranges, err = c.ranges(ctx, state, former, tables); return err })
		if err != nil {
			return err
		}
	}
	err := c.call(life, func(ctx context.Context) error { _, err := c.Ledger.BeginSweep(ctx, state, pass, ranges); return err })
	if err != nil {
		return err
	}
	c.wakeLoader.Signal()
	return nil
}

// quiet returns once no write of an older generation can still arrive. It drops the fence's numbers
// below this load's number. It waits for a lease, in which a worker that knows no fence notices
// that it lost its lease. After that it waits for the time that a drop or, without a fence, a
// request may take. Both waits run at the same time. A drain ends the wait.
func (c *Conductor) quiet(life engine.Lifecycle, former []string) error {
	began := task.Mono(life.Work)
	if c.mapping.VersionAttribute() != "" { // its application reads the number in the witness
		if err := c.call(life, func(ctx context.Context) error { return c.witnesses.Beat(life.Within(ctx)) }); err != nil {
			return err
		}
	}
	if c.Mode == checkpoint.Topic { // until the load is sealed, appliers write the messages of earlier generations under its number too
		if err := c.call(life, func(ctx context.Context) error { return c.fencing.RaiseAll(ctx, former...) }); err != nil {
			return err
		}
	}
	f := c.fencing.Fence
	f.Rest = func(_ context.Context, d time.Duration) error { return life.Rest(d) }
	late := time.Duration(0)
	for _, table := range slices.Concat(c.mapping.Tables(), former) {
		t, _, err := c.Ledger.Target(life.Work, table)
		if err != nil {
			return err
		}
		withheld, err := f.Drop(life.Work, table, t.Fence)
		if err != nil {
			return err
		}
		if withheld == "" && f.Families != nil {
			late = max(late, f.Families.DropDelay())
		} else {
			late = sink.DefaultTimeout
		}
	}
	return life.Rest(began + c.Ledger.Lease() + late - task.Mono(life.Work))
}

// former returns the earlier mappings that are not swept yet, and the tables that only they wrote.
func (c *Conductor) former(ctx context.Context, state checkpoint.TableState) (former []sink.Former, tables []string, err error) {
	if former, err = c.fencing.Formers.Of(ctx, state); err == nil {
		tables, err = c.fencing.Formers.Tables(ctx, former)
	}
	return former, tables, err
}

// ranges divides all target tables for the sweep.
func (c *Conductor) ranges(ctx context.Context, state checkpoint.TableState, former []sink.Former, further []string) ([]checkpoint.SweepRange, error) {
	var all []checkpoint.SweepRange
	tables := slices.Concat(c.mapping.Tables(), further)
	for _, table := range tables {
		found, err := backfill.SweepRanges(ctx, c.target, sweeping(c.mapping, former, table, state, c.settings), max(1, mostSweepParts/len(tables)))
		if engine.Coded(err, "NotFound") && slices.Contains(further, table) {
			continue // it was just deleted
		}
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			all = append(all, checkpoint.SweepRange{Table: table, From: []byte(r.From), To: []byte(r.To)})
		}
	}
	return all, nil
}

// clean removes the part rows of loads that are over, or that a raise ended, once.
func (c *Conductor) clean(life engine.Lifecycle, state checkpoint.TableState) error {
	if state.Load.Number == 0 || c.cleaned == state.Load.Number {
		return nil
	}
	err := c.Ledger.RemoveParts(life.Work, c.Source)
	if err == nil {
		c.cleaned = state.Load.Number
	}
	return err
}
