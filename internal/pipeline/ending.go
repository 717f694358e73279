package pipeline

import (
	"errors"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// fatal tells whether an error ends the process: no repeat and no other worker mends it.
func fatal(err error) bool {
	var source *SourceError
	return orderly(err) || errors.As(err, &source) || isAny(err, checkpoint.ErrLedgerExchanged, checkpoint.ErrForeignPipeline, checkpoint.ErrClusterChanged, checkpoint.ErrFormat)
}

// orderly tells whether an error ends the process with a clean stop: ledger and target are still
// ours to write.
func orderly(err error) bool {
	var bad *sink.BadItem
	var stream *StreamError
	var key *KeyError
	var rows *RowsError
	return errors.As(err, &bad) || errors.As(err, &stream) || errors.As(err, &key) || errors.As(err, &rows) || isAny(err, checkpoint.ErrMappingChanged, checkpoint.ErrRanked, checkpoint.ErrMode, checkpoint.ErrCutOver, checkpoint.ErrPaused, sink.ErrParkedLimit)
}

func isAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}
