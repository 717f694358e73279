package stream

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// Where a table begins to be followed cuts off, or is owed, only what no load brings.
func TestACopiedTableIsNotCut(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	began := at.Add(-checkpoint.Slack)
	for name, c := range map[string]struct {
		table      engine.Spec
		cut, since time.Time
	}{
		"copied":                   {engine.Spec{Copy: true}, time.Time{}, time.Time{}},
		"copied, and from now on":  {engine.Spec{Copy: true, FromNow: true}, time.Time{}, time.Time{}},
		"from now on":              {engine.Spec{FromNow: true}, began, time.Time{}},
		"as far as the stream has": {engine.Spec{}, time.Time{}, began},
	} {
		ledger, err := checkpoint.Open(t.Context(), &checkpointtest.Memory{}, "begin", checkpoint.Options{Worker: "w", ID: "l"})
		if err != nil {
			t.Fatal(err)
		}
		k := enginetest.NewRig(ledger, c.table)
		if s, err := reconcilerOf(k).begin(t.Context(), backfill.Description{At: at}, nil); err != nil || !s.Cut.Equal(c.cut) || !s.Since.Equal(c.since) {
			t.Errorf("%s: cut at %s, followed since %s, %v", name, s.Cut, s.Since, err)
		}
	}
}
