package pipeline

import (
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
)

// CheckState reports, from the ledger's record of a table, whether Run would refuse the described
// table under this mapping. It fails with a *SourceError, or with checkpoint.ErrMappingChanged
// unless a changed mapping is accepted. It changes nothing, so it can be called before anything is
// created (H99).
func CheckState(state checkpoint.TableState, d backfill.Description, mappingHash string, acceptMapping bool) error {
	if err := engine.CheckSource(d, state.StreamARN); err != nil {
		return err
	}
	if err := checkpoint.CheckRanked(state.MappingHash, mappingHash); err != nil && state.Generation > 0 {
		return err
	}
	if state.Generation > 0 && state.MappingHash != "" && state.MappingHash != mappingHash && !acceptMapping {
		return checkpoint.ErrMappingChanged
	}
	return nil
}
