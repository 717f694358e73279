package verify

import (
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// H41: a write that the application made without DynamoDB, or too late, is reported as such.
func TestH41_PhantomsAndLateWritesAreNamed(t *testing.T) {
	settled := transform.NewVersion(1, 2, cdc.SequenceOf(3), transform.CountExact)
	for name, c := range map[string]struct {
		finding Finding
		late    time.Duration
		want    string
	}{
		"a row of no item":          {Finding{Kind: Extra}, time.Minute, "a phantom"},
		"a row of a removed item":   {Finding{Kind: Extra, Version: settled}, time.Minute, "after the item was removed, later than dual_writes.settle, 1m0s"},
		"a live row of no item":     {Finding{Kind: Extra, Version: settled, Live: true}, time.Minute, ""},
		"other cells":               {Finding{Kind: Different, Version: settled, Live: true}, time.Minute, "or as a phantom"},
		"a row without its version": {Finding{Kind: Missing}, time.Minute, "deleted or wrote the whole row later"},
		"other cells at count 0":    {Finding{Kind: Different, Version: settled.WithoutCount(), Live: true}, time.Minute, ""},
		"another table":             {Finding{Kind: Different, Version: settled, Live: true}, 0, ""},
		"cells of nobody":           {Finding{Kind: Foreign, Reason: "nobody"}, time.Minute, "nobody"},
	} {
		c.finding.explain(c.late)
		if got := c.finding.Reason; !strings.Contains(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// A row whose version is above the ledger's generation is reported with the fix, because it refuses
// every change.
func TestAVersionAboveTheLedgerIsExplained(t *testing.T) {
	w := newWorld(t, mapping(t, nil, "{id} > d"))
	w.load(noon, item("a", "v=1")) // in generation 7
	w.source.put(item("a", "v=2"))
	for generation, explained := range map[uint32]bool{0: false, 6: true, 7: false, 8: false} {
		c := w.comparison()
		c.Generation = generation
		result, err := w.compare(c, Live)
		if err != nil || len(result.Findings) != 1 || strings.Contains(result.Findings[0].Reason, "backfill redo") != explained {
			t.Errorf("generation %d: %+v, %v", generation, result.Findings, err)
		}
	}
}
