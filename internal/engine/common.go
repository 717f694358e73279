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
	halt        context.CancelCauseFunc // begins a clean stop of the process
}

// End reports an error that ends the process. If a clean stop is safe after it, the error becomes
// the cause of the stop. Leases are then released, so that another worker can acquire them
// immediately. After any other error the process writes nothing more.
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

// View is the result of one pass over the ledger.
type View struct {
	State  checkpoint.TableState
	Shards []checkpoint.Shard
	Listed time.Time            // Once: the time of the last complete listing, if needed; see listed
	Merged []checkpoint.Applied // mode topic: the changes known to be applied
	Over   bool                 // whether the tracker saw the table's stream end, before the rest was read
}

// Record reads the table's record. It fails if the ledger or the mapping is not the one this
// process was started with.
func (c *Common) Record(ctx context.Context) (checkpoint.TableState, error) {
	if err := c.Ledger.Check(ctx); err != nil {
		return checkpoint.TableState{}, err
	}
	state, _, err := c.Ledger.Table(ctx, c.Source)
	if err != nil {
		return checkpoint.TableState{}, err
	}
	if state.MappingHash != c.MappingHash {
		// A ledger that was lost since the last check has neither the record nor a mapping.
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
	state, err := c.Record(ctx)
	if err != nil {
		return View{}, err
	}
	// Read before the shards: changes that are published later are not applied yet.
	var merged []checkpoint.Applied
	if c.Mode == checkpoint.Topic {
		if merged, err = c.Ledger.Merged(ctx, c.Source); err != nil {
			return View{}, err
		}
	}
	shards, err := c.Ledger.Shards(ctx, c.Source)
	return View{State: state, Shards: shards, Merged: merged}, err
}

// Raise declares a gap, raises the generation and reports it. It fails with checkpoint.ErrRaised if
// another gap was declared meanwhile without change. The caller then reads the record again.
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

// ReportLag reports the lag of the shards that this worker tracks, or that it reads none.
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
