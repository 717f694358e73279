package job

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
)

// Kind is a kind of job of one table.
type Kind interface {
	// Look reads the table's record. Of is a template, without its index, of the parts that this
	// worker may work on now. Its Total is 0 if there are none: no job is running, it is paused, or
	// it was planned with another mapping.
	Look(ctx context.Context) (state checkpoint.TableState, of checkpoint.Part, err error)
	// Begin prepares for the running phase, whose parts are rows. If it fails, it is called again.
	Begin(ctx context.Context, state checkpoint.TableState, rows []checkpoint.Part) (Phase, error)
	// Pace bounds the rows a second of this worker. The loop itself bounds the read units.
	Pace(ctx context.Context, state checkpoint.TableState, limits checkpoint.Limits)
	// Failed is called if a part has failed under its lease in a way that no retry fixes, but that
	// is not fatal. The part is released, and acquired again.
	Failed(err error)
}

// Phase is the work of this worker on one phase of a job.
type Phase interface {
	// Complete is called when every part is done, with their rows, and returns the resulting
	// record. Several workers may call it concurrently, and each of them until the phase changes.
	Complete(ctx context.Context, state checkpoint.TableState, rows []checkpoint.Part) (checkpoint.TableState, error)
	// Take leases a part. It fails with checkpoint.ErrTaken if this worker cannot have it now.
	Take(ctx context.Context, state checkpoint.TableState, part checkpoint.Part) (*checkpoint.PartLease, Work, error)
	// End is called when the phase is over for this worker. Its parts are released between two
	// pages.
	End()
}

// Work processes a part under its lease, from its saved position to its end, which it records in
// the ledger. The end of the drain ends it between two pages, with backfill.ErrDrained.
type Work func(life engine.Lifecycle) error
