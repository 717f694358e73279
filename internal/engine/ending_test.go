package engine

import (
	"errors"
	"fmt"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// TestEndTellsACleanStopFromAnAbruptOne: after an error that leaves ledger and target writable,
// leases are released. After any other, nothing more is written (H46).
func TestEndTellsACleanStopFromAnAbruptOne(t *testing.T) {
	for _, c := range []struct {
		err    error
		halts  bool
		abrupt bool
	}{
		{nil, false, false},
		{errors.New("passes"), false, false},
		{checkpoint.ErrLeaseLost, false, false},
		{&sink.BadItem{Source: "Orders", Reason: "no"}, true, false},
		{sink.ErrParkedLimit, true, false},
		{&StreamError{Table: "Orders"}, true, false},
		{&KeyError{Table: "Orders"}, true, false},
		{checkpoint.ErrMappingChanged, true, false},
		{checkpoint.ErrClusterChanged, false, true},
		{&checkpoint.SourceError{Table: "Orders"}, false, true},
		{checkpoint.ErrLedgerExchanged, false, true},
		{checkpoint.ErrForeignPipeline, false, true},
		{fmt.Errorf("row: %w", checkpoint.ErrFormat), false, true},
	} {
		var halted error
		parts := &Common{halt: func(err error) { halted = err }}
		got := parts.End(c.err)
		if (halted != nil) != c.halts || (got != nil) != c.abrupt {
			t.Errorf("%v: halted with %v, returned %v", c.err, halted, got)
		}
	}
}
