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

// sweep ends the running pass if all its parts are done, or begins the next pass.
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
		if err := c.mayStillEnd(life, state); err != nil {
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
		if err := c.quiet(life, state, tables); err != nil || c.stuck != "" {
			c.wake.Signal()
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

// quiet returns when no write of an older generation can still arrive. It drops the fence's numbers
// below this load's number. In total, it waits for the duration of a lease plus the time until the
// drop is in force. Without a fence, the second time is the maximum time of a request. A worker of
// a version without a fence notices a lost lease within the lease's duration. A drain ends the
// wait.
func (c *Conductor) quiet(life engine.Lifecycle, state checkpoint.TableState, former []string) error {
	began := task.Mono(life.Work)
	// The application reads the fence's number in the witness row.
	if c.mapping.VersionAttribute() != "" {
		if err := c.call(life, func(ctx context.Context) error { return c.witnesses.Beat(life.Within(ctx)) }); err != nil {
			return err
		}
	}
	// Until the load is planned, appliers write older generations with this load's number. All rows
	// of a fast load have its number.
	if c.Mode == checkpoint.Topic || state.Load.Fast {
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
		if withheld != "" && state.Load.Fast {
			c.stuck, c.stuckSince = checkpoint.PausedForFence+withheld, task.Mono(life.Work)
			return nil
		}
		if withheld == "" && f.Families != nil {
			late = max(late, f.Families.DropDelay())
		} else {
			late = sink.DefaultTimeout
		}
	}
	if err := life.Rest(began + c.Ledger.Lease() + late - task.Mono(life.Work)); err != nil || !state.Load.Fast {
		return err
	}
	return c.probe(life, state)
}

// former returns the earlier mappings with rows that are not swept yet, and the target tables that
// only these mappings wrote.
func (c *Conductor) former(ctx context.Context, state checkpoint.TableState) (former []sink.Former, tables []string, err error) {
	if former, err = c.fencing.Formers.Of(ctx, state); err == nil {
		tables, err = c.fencing.Formers.Tables(ctx, former)
	}
	return former, tables, err
}

// ranges divides all target tables into ranges for the sweep.
func (c *Conductor) ranges(ctx context.Context, state checkpoint.TableState, former []sink.Former, further []string) ([]checkpoint.SweepRange, error) {
	var all []checkpoint.SweepRange
	tables := slices.Concat(c.mapping.Tables(), further)
	for _, table := range tables {
		found, err := backfill.SweepRanges(ctx, c.target, sweeping(c.mapping, former, table, state, c.settings), max(1, mostSweepParts/len(tables)))
		if engine.Coded(err, "NotFound") && slices.Contains(further, table) {
			continue // the table was just deleted
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

// clean removes the rows of parts of loads that are complete, or that a new generation ended. It
// does so once per load.
func (c *Conductor) clean(life engine.Lifecycle, state checkpoint.TableState) error {
	if state.Load.Number == 0 || c.cleaned == state.Load.Number {
		return nil
	}
	err := c.swept(life.Work, state)
	if err == nil {
		err = c.Ledger.RemoveParts(life.Work, c.Source)
	}
	if err == nil {
		c.cleaned = state.Load.Number
	}
	return err
}
