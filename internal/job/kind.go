package job

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
)

// Kind is a kind of job of one table.
type Kind interface {
	// Look reads the table's record. The result `of` is a template of the parts that this worker
	// may lease now, without an index. Its Total is 0 if there are no such parts: no job is
	// running, the job is paused, or it was planned with another mapping.
	Look(ctx context.Context) (state checkpoint.TableState, of checkpoint.Part, err error)
	// Begin prepares the work on the running phase, whose parts are `rows`. If Begin fails, it is
	// called again.
	Begin(ctx context.Context, state checkpoint.TableState, rows []checkpoint.Part) (Phase, error)
	// Pace sets the limit on rows per second of this worker. The loop itself limits the read units.
	// Pace returns the rows per second that all workers together may write while the job begins; 0
	// means no limit.
	Pace(ctx context.Context, state checkpoint.TableState, limits checkpoint.Limits) (ramp float64)
	// Failed is called if a part has failed with an error that no retry can fix, but that is not
	// fatal. The part is released, and acquired again.
	Failed(err error)
}

// Phase is the work of this worker on one phase of a job.
type Phase interface {
	// Complete is called with the rows of the parts when all parts are done. It returns the
	// resulting record. Several workers may call it concurrently, and repeatedly until the phase
	// changes.
	Complete(ctx context.Context, state checkpoint.TableState, rows []checkpoint.Part) (checkpoint.TableState, error)
	// Take leases a part. It fails with checkpoint.ErrTaken if this worker cannot acquire the part
	// now.
	Take(ctx context.Context, state checkpoint.TableState, part checkpoint.Part) (*checkpoint.PartLease, Work, error)
	// End is called when this worker stops its work on the phase. The worker's parts are released
	// after their current page.
	End()
}

// Work processes a part under its lease, from its saved position to its end. It records the end in
// the ledger. When a drain begins, it returns backfill.ErrDrained after the current page.
type Work func(life engine.Lifecycle) error
