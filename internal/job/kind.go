package job

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
)

// Kind is a kind of job of one table.
type Kind interface {
	// Look reads the table's record. Of is what each part is as that this worker may work on now, but
	// for its index. Its Total is 0 if there is none: no job is under way, or it is paused, or it was
	// planned with another mapping.
	Look(ctx context.Context) (state checkpoint.TableState, of checkpoint.Part, err error)
	// Begin prepares for the phase that runs, whose parts stand as in rows. If it fails, it is called
	// again.
	Begin(ctx context.Context, state checkpoint.TableState, rows []checkpoint.Part) (Phase, error)
	// Pace bounds the rows a second of this worker. The read units are the loop's.
	Pace(ctx context.Context, state checkpoint.TableState, limits checkpoint.Limits)
	// Failed is called when a part has failed under its lease in a way that no retry fixes, and that
	// is not fatal. It is left, and taken again.
	Failed(err error)
}

// Phase is the work of this worker on one phase of a job.
type Phase interface {
	// Complete is called when every part is done, with their rows, and returns the record as it is
	// then. Several workers may call it at once, and each until the phase is another one.
	Complete(ctx context.Context, state checkpoint.TableState, rows []checkpoint.Part) (checkpoint.TableState, error)
	// Take leases a part. It fails with checkpoint.ErrTaken if this worker cannot have it now.
	Take(ctx context.Context, state checkpoint.TableState, part checkpoint.Part) (*checkpoint.PartLease, Work, error)
	// End is called when the phase is over for this worker. Its parts are left between two pages.
	End()
}

// Work works on a part under its lease, from where it stands to its end, which it notes in the
// ledger. An end of the drain ends it between two pages, with backfill.ErrDrained.
type Work func(life engine.Lifecycle) error
