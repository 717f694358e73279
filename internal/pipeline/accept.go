package pipeline

import (
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
)

// CheckState returns an error if Run would refuse a table with this mapping, according to the
// table's record in the ledger. The error is a *checkpoint.SourceError, or checkpoint.ErrMappingChanged if a
// changed mapping is not accepted. CheckState changes nothing, so callers use it before they create
// any resource (H99).
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
