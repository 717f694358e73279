package pipeline

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// common is what all parts of a table's work share.
type common struct {
	*retrier
	ledger      *checkpoint.Ledger
	floors      *Floors
	mappingHash string
	mode        checkpoint.Mode
	timing      Timing
	halt        context.CancelCauseFunc // begins a clean stop of the process
}

// end passes on what ends the process. An error after which a clean stop is safe becomes its cause,
// so that leases are released and another worker may take over at once; after any other nothing
// more is written.
func (c *common) end(err error) error {
	switch {
	case orderly(err):
		c.halt(err)
		return nil
	case fatal(err):
		return err
	}
	return nil
}

// view is the ledger as it was read in one pass.
type view struct {
	state  checkpoint.TableState
	shards []checkpoint.Shard
	listed time.Time            // Once: when the last whole listing was of, where it matters; see listed
	merged []checkpoint.Applied // mode topic: what is known to be applied
	over   bool                 // what the tracker said of the end of the table's stream, before the rest was read
}

// record reads the table's record, and makes sure that it is still of the ledger and the mapping this
// process was started with.
func (c *common) record(ctx context.Context) (checkpoint.TableState, error) {
	if err := c.ledger.Check(ctx); err != nil {
		return checkpoint.TableState{}, err
	}
	state, _, err := c.ledger.Table(ctx, c.source)
	if err != nil {
		return checkpoint.TableState{}, err
	}
	if state.MappingHash != c.mappingHash {
		return checkpoint.TableState{}, checkpoint.ErrMappingChanged
	}
	if err := state.Admits(c.mode, false); err != nil {
		return checkpoint.TableState{}, err
	}
	c.floors.raise(c.source, state.Generation)
	return state, nil
}

// look reads the table's record and its shards.
func (c *common) look(ctx context.Context) (view, error) {
	state, err := c.record(ctx)
	if err != nil {
		return view{}, err
	}
	// Before the shards: what is published of them later is not applied yet.
	var merged []checkpoint.Applied
	if c.mode == checkpoint.Topic {
		if merged, err = c.ledger.Merged(ctx, c.source); err != nil {
			return view{}, err
		}
	}
	shards, err := c.ledger.Shards(ctx, c.source)
	return view{state: state, shards: shards, merged: merged}, err
}

// raise declares a gap and raises the generation, and reports it. It fails with
// checkpoint.ErrRaised if another gap was declared meanwhile and change was not made with it:
// whoever wanted it looks again.
func (c *common) raise(life lifecycle, from uint32, gap checkpoint.DeclaredGap, change func(*checkpoint.TableState)) error {
	var overtaken error
	err := c.retry(life.finishing(), "raise the generation", func(ctx context.Context) error {
		state, err := c.ledger.Raise(ctx, c.source, from, gap, change)
		if errors.Is(err, checkpoint.ErrRaised) {
			overtaken = err
			return nil
		}
		if err != nil {
			return err
		}
		c.floors.raise(c.source, state.Generation)
		c.events.Gap(c.source, gap.Shard, gap.Reason)
		c.events.Raised(c.source, state.Generation, gap.Reason)
		return nil
	})
	return cmp.Or(err, overtaken)
}

// reportLag reports how far behind this worker is with the shards that it tracks, or that it reads
// none.
func (c *common) reportLag(ctx context.Context, b *shardTracker) {
	served := c.ledger.ServiceTime(ctx)
	now := served
	if now.IsZero() {
		now = task.Now(ctx)
	}
	if lag, known := b.lag(now, task.Mono(ctx)); known {
		c.events.Lag(c.source, lag, b.headroom(served, lag))
	} else {
		c.events.NotReading(c.source)
	}
}
