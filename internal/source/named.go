package source

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Named is a source that the configuration names. A table's first load copies it instead of
// scanning.
type Named struct {
	Address string
	// Judge reads the source, and proves that its images may be applied to the table. The error is
	// a *Refused if they may not, and a *checkpoint.NotAdmissible if waiting helps.
	Judge func(ctx context.Context, table checkpoint.TableState, shards []checkpoint.Shard) (checkpoint.Export, error)
}

// Given reports whether a source is named.
func (n Named) Given() bool { return n.Address != "" }

// Refused says why a source is not copied, and the fix. The table is not scanned instead, because a
// scan has the cost that the source was to avoid.
type Refused struct{ Why string }

func (e *Refused) Error() string { return "the export is refused: " + e.Why }
