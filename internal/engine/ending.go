package engine

import (
	"errors"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Fatal reports whether an error must end the process, because neither a retry nor another worker
// helps.
func Fatal(err error) bool {
	var source *checkpoint.SourceError
	return Orderly(err) || errors.As(err, &source) || IsAny(err, checkpoint.ErrLedgerExchanged, checkpoint.ErrForeignPipeline, checkpoint.ErrClusterChanged, checkpoint.ErrFormat)
}

// Orderly reports whether the process may stop cleanly after an error. During a clean stop it may
// still write to the ledger and the target.
func Orderly(err error) bool {
	var bad *sink.BadItem
	var stream *StreamError
	var key *KeyError
	var rows *RowsError
	var stranger *StrangerError
	return errors.As(err, &bad) || errors.As(err, &stream) || errors.As(err, &key) || errors.As(err, &rows) || errors.As(err, &stranger) || IsAny(err, checkpoint.ErrMappingChanged, checkpoint.ErrRanked, checkpoint.ErrMode, checkpoint.ErrCutOver, checkpoint.ErrPaused, sink.ErrParkedLimit)
}

func IsAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// ErrHalted is returned when work on a table, or an attempt to apply a message, ends because the
// table is halted. Work continues when the cutover is cancelled or the table is resumed.
var ErrHalted = errors.New("a cutover halted the table, or an operator paused it")

// ErrTimeless makes a step wait until an answer has a time. Times that decide about coverage must
// come from the service's clock (H64).
var ErrTimeless = &cdc.Error{Op: "DescribeTable", Reason: cdc.Unavailable, Err: errors.New("the answer has no Date header; check whether a proxy removes it")}
