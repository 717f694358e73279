package engine

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Common holds the state that all loops of one table share.
type Common struct {
	*Retrier
	Ledger      *checkpoint.Ledger
	Register    *fence.Register
	Floors      *Floors
	MappingHash string
	Mode        checkpoint.Mode
	Timing      Timing
	Tracer      Tracer                  // nil if this process records no traces
	halt        context.CancelCauseFunc // starts a clean stop of the process
}

// End reports an error that ends the process. If the process may still stop cleanly, it does so,
// with the error as the cause. A clean stop releases leases, so that other workers can acquire them
// immediately. After any other error the process sends no more writes.
func (c *Common) End(err error) error {
	switch {
	case Orderly(err):
		c.halt(err)
		return nil
	case Fatal(err):
		return err
	}
	return nil
}

// View is what one pass over the ledger has read.
type View struct {
	State  checkpoint.TableState
	Shards []checkpoint.Shard
	// Listed is the time of the last complete listing. It is read only with Options.Once, and only
	// if it is needed.
	Listed time.Time
	Merged []checkpoint.Applied // in mode topic: how far each applier is known to have applied messages
	// Over reports whether the tracker had seen the end of the table's stream before these records
	// were read.
	Over bool
}

// Patient returns a context for the ledger's regular reads. If passes are rare, their reads may
// wait a moment for those of other tables.
func (c *Common) Patient(ctx context.Context) context.Context {
	if c.Timing.Pass < time.Second {
		return ctx
	}
	return checkpoint.Patient(ctx)
}

// Record reads the table's record. It fails if the ledger or the mapping has changed since this
// process was started.
func (c *Common) Record(ctx context.Context) (checkpoint.TableState, error) {
	ctx = c.Patient(ctx)
	if err := c.Ledger.Check(ctx); err != nil {
		return checkpoint.TableState{}, err
	}
	state, _, err := c.Ledger.Table(ctx, c.Source)
	if err != nil {
		return checkpoint.TableState{}, err
	}
	if state.MappingHash != c.MappingHash {
		// If the ledger was lost since the last check, the record is missing, and so is its
		// mapping.
		return checkpoint.TableState{}, cmp.Or(c.Ledger.Check(ctx), checkpoint.ErrMappingChanged)
	}
	if err := state.Admits(c.Mode, false); err != nil {
		return checkpoint.TableState{}, err
	}
	c.Floors.Raise(c.Source, state.Generation)
	return state, nil
}

// Look reads the table's record and its shards.
func (c *Common) Look(ctx context.Context) (View, error) {
	ctx = c.Patient(ctx)
	state, err := c.Record(ctx)
	if err != nil {
		return View{}, err
	}
	// This read must come before the read of the shards. A change that is published in between
	// counts as not applied.
	var merged []checkpoint.Applied
	if c.Mode == checkpoint.Topic {
		if merged, err = c.Ledger.Merged(ctx, c.Source); err != nil {
			return View{}, err
		}
	}
	shards, err := c.Ledger.Shards(ctx, c.Source)
	return View{State: state, Shards: shards, Merged: merged}, err
}

// Raise declares a gap, raises the generation and reports it. If another gap was declared
// meanwhile, it changes nothing and fails with checkpoint.ErrRaised. Then the caller must read the
// record again.
func (c *Common) Raise(life Lifecycle, from uint32, gap checkpoint.DeclaredGap, change func(*checkpoint.TableState)) error {
	var overtaken error
	err := c.Retry(life.Finishing(), "raise the generation", func(ctx context.Context) error {
		state, err := c.Ledger.Raise(ctx, c.Source, from, gap, change)
		if errors.Is(err, checkpoint.ErrRaised) {
			overtaken = err
			return nil
		}
		if err != nil {
			return err
		}
		c.Floors.Raise(c.Source, state.Generation)
		c.Events.Gap(c.Source, gap.Shard, gap.Reason)
		c.Events.Raised(c.Source, state.Generation, gap.Reason)
		return nil
	})
	return cmp.Or(err, overtaken)
}

// ReportLag reports the largest lag of the shards that this worker tracks. If it reads no shard, it
// reports that instead.
func (c *Common) ReportLag(ctx context.Context, b *ShardTracker) {
	served := c.Ledger.ServiceTime(ctx)
	now := served
	if now.IsZero() {
		now = task.Now(ctx)
	}
	if lag, known := b.lag(now, task.Mono(ctx)); known {
		c.Events.Lag(c.Source, lag, b.headroom(served, lag))
	} else {
		c.Events.NotReading(c.Source)
	}
}
