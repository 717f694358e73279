package pipeline

import (
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// TestH63_SilenceIsWithoutABreak: what may be otherwise for another worker counts, and what shows that the source has answered begins it anew.
func TestH63_SilenceIsWithoutABreak(t *testing.T) {
	failure := func(r cdc.Reason) error { return &cdc.Error{Op: "GetRecords", Reason: r, Err: errors.New("no")} }
	var s silence
	for i, step := range []struct {
		err  error
		now  time.Duration
		want time.Duration
	}{
		{failure(cdc.Unavailable), 10, 0},
		{failure(cdc.Denied), 13, 3},
		{failure(cdc.Malformed), 17, 7},
		{failure(cdc.Throttled), 20, 10}, // neither here nor there
		{failure(cdc.Denied), 21, 11},
		{errors.New("of the ledger"), 25, 0}, // the source has answered meanwhile
		{failure(cdc.Throttled), 27, 0},
		{failure(cdc.Throttled), 29, 0},
		{failure(cdc.Denied), 30, 0},
		{failure(cdc.Denied), 31, 1},
		{&sink.Error{Op: "CheckAndMutateRow", Reason: sink.Denied}, 40, 0}, // of the target, which every lease needs anyway
		{failure(cdc.Unavailable), 50, 0},
		{failure(cdc.Unavailable), 59, 9},
	} {
		if got := s.lasts(step.err, step.now); got != step.want {
			t.Errorf("step %d: %v lasts for %d, want %d", i, step.err, got, step.want)
		}
	}
}
