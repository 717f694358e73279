package engine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// A step retries every error that a retry may fix. A worker that gave up after losing a race would
// no longer follow the table. Other errors are returned immediately.
func TestWhatIsRepeated(t *testing.T) {
	for _, c := range []struct {
		err      error
		repeated bool
	}{
		{checkpoint.ErrConflict, true}, {checkpoint.ErrRaised, true}, {errors.New("anything"), true},
		{checkpoint.ErrTaken, false}, {checkpoint.ErrLeaseLost, false}, {sink.ErrFenced, false}, {ErrYield, false}, {ErrStopped, false}, {backfill.ErrDrained, false},
		{checkpoint.ErrMappingChanged, false}, {checkpoint.ErrLedgerExchanged, false}, {checkpoint.ErrForeignPipeline, false}, {checkpoint.ErrClusterChanged, false},
		{sink.ErrParkedLimit, false}, {&sink.BadItem{}, false}, {&StreamError{}, false}, {&checkpoint.SourceError{}, false},
		{&cdc.Error{Reason: cdc.Trimmed}, false}, {&cdc.Error{Reason: cdc.NotFound}, false}, {&cdc.Error{Reason: cdc.Malformed}, true}, {&cdc.Error{Reason: cdc.Unreadable}, true},
		{&cdc.Error{Reason: cdc.Denied}, true}, {&cdc.Error{Reason: cdc.Throttled}, true}, {&cdc.Error{Reason: cdc.Unavailable}, true}, {&cdc.Error{Reason: cdc.Expired}, true},
		{&sink.Error{Reason: sink.Unknown}, true}, {&sink.Error{Reason: sink.Denied}, true}, {&sink.Error{Reason: sink.Permanent}, true}, {&sink.Error{Reason: sink.Rejected}, false},
	} {
		if got := Repeatable(fmt.Errorf("a step: %w", c.err)); got != c.repeated {
			t.Errorf("%v: repeated %v", c.err, got)
		}
	}
}
