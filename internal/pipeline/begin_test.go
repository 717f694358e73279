package pipeline

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// Where a table begins to be followed cuts off, or is owed, only what no load brings.
func TestACopiedTableIsNotCut(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	began := at.Add(-checkpoint.Slack)
	for name, c := range map[string]struct {
		table      Table
		cut, since time.Time
	}{
		"copied":                   {Table{Copy: true}, time.Time{}, time.Time{}},
		"copied, and from now on":  {Table{Copy: true, FromNow: true}, time.Time{}, time.Time{}},
		"from now on":              {Table{FromNow: true}, began, time.Time{}},
		"as far as the stream has": {Table{}, time.Time{}, began},
	} {
		ledger, err := checkpoint.Open(t.Context(), &checkpointtest.Memory{}, "begin", checkpoint.Options{Worker: "w", ID: "l"})
		if err != nil {
			t.Fatal(err)
		}
		k := newRig(ledger, c.table)
		if s, err := reconcilerOf(k).begin(t.Context(), backfill.Description{At: at}, nil); err != nil || !s.Cut.Equal(c.cut) || !s.Since.Equal(c.since) {
			t.Errorf("%s: cut at %s, followed since %s, %v", name, s.Cut, s.Since, err)
		}
	}
}
