package source

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Named is an export that the configuration names. A table's first load copies it instead of a
// scan.
type Named struct {
	Address string
	// Judge reads the source, and proves that its images may be applied to the table. The error is
	// a *Refused if the images must not be applied. It is a *checkpoint.NotAdmissible if the images
	// may be applicable later.
	Judge func(ctx context.Context, table checkpoint.TableState, shards []checkpoint.Shard) (checkpoint.Export, error)
}

// Given reports whether the configuration names an export.
func (n Named) Given() bool { return n.Address != "" }

// Refused is the error for an export that is not copied, with the reason and the fix. The table is
// not scanned instead, because the operator named the export to avoid the cost of a scan.
type Refused struct{ Why string }

func (e *Refused) Error() string { return "the export is refused: " + e.Why }
