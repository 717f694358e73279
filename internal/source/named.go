package source

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Named is a source that the configuration names: a table's first load copies it in place of a scan.
type Named struct {
	Address string
	// Judge reads it, and proves that its images may be applied to the table. The error is a *Refused
	// if they may not be, and a *checkpoint.NotAdmissible if waiting mends it.
	Judge func(ctx context.Context, table checkpoint.TableState, shards []checkpoint.Shard) (checkpoint.Export, error)
}

// Given reports whether there is one.
func (n Named) Given() bool { return n.Address != "" }

// Refused says why a source is not copied, with what to do. The table is not scanned instead: that
// costs what the source was to spare.
type Refused struct{ Why string }

func (e *Refused) Error() string { return "the export is refused: " + e.Why }
