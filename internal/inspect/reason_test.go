package inspect

import (
	"testing"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

func TestReasonOf(t *testing.T) {
	version := func(count uint16) transform.Version {
		return transform.NewVersion(7, 500_000, cdc.SequenceOf(1), count)
	}
	cells := func(values ...string) (cells []transform.Cell) {
		for i, v := range values {
			cells = append(cells, transform.Cell{Family: "d", Qualifier: string(rune('a' + i)), Value: []byte(v)})
		}
		return cells
	}
	put := transform.RowMutation{Table: "t", Row: "r", Families: []string{"d"}, Cells: cells("1", "2")}
	remove := transform.RowMutation{Table: "t", Row: "r", Families: []string{"d"}, Remove: true}
	for name, c := range map[string]struct {
		want   transform.RowMutation
		seen   sink.Row
		ageing []string
		reason string
	}{
		"equal":                         {want: put, seen: sink.Row{Version: version(1), Cells: cells("1", "2")}},
		"changed":                       {want: put, seen: sink.Row{Version: version(1), Cells: cells("1", "x")}, reason: reasonForeign},
		"deleted":                       {want: put, reason: reasonForeign},
		"version taken":                 {want: put, seen: sink.Row{Cells: cells("1", "2")}, reason: reasonForeign},
		"cells taken":                   {want: put, seen: sink.Row{Version: version(1)}, reason: reasonForeign},
		"cells taken by age":            {want: put, seen: sink.Row{Version: version(1), Cells: cells("1")}, ageing: []string{"d"}, reason: reasonCollected},
		"changed in an ageing family":   {want: put, seen: sink.Row{Version: version(1), Cells: cells("x")}, ageing: []string{"d"}, reason: reasonForeign},
		"to be settled":                 {want: put, seen: sink.Row{Version: version(0), Cells: cells("0")}, reason: reasonInFlight},
		"another program's version":     {want: put, seen: sink.Row{Version: "zzz", Cells: cells("1")}, reason: reasonForeign},
		"no item, no version":           {want: remove, seen: sink.Row{Cells: cells("1")}, reason: reasonPhantom},
		"no item, written on its grave": {want: remove, seen: sink.Row{Gone: version(1), Cells: cells("1")}, reason: reasonPhantom},
		"no item, put back":             {want: remove, seen: sink.Row{Version: version(1), Cells: cells("1")}, reason: reasonForeign},
	} {
		f := itemFindings{present: !c.want.Remove, ageing: c.ageing, rows: []itemRow{{c.want, c.seen}}}
		got := reasonOf(f, itemVerdict{State: itemDifferent})
		if (got == nil) != (c.reason == "") || got != nil && (got.Reason != c.reason || got.Text == "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for state, want := range map[string]string{
		itemParked: reasonParked, itemUnmappable: reasonParked, itemNeedsLoad: reasonGap, itemBehind: reasonInFlight, itemNotCopied: reasonInFlight, itemExpired: reasonCollected, itemEqual: "", itemKept: "",
	} {
		if got := reasonOf(itemFindings{}, itemVerdict{State: state}); (got == nil) != (want == "") || got != nil && got.Reason != want {
			t.Errorf("%s: %+v", state, got)
		}
	}
	if got := ageingFamilies(config.Table{Families: []config.Family{{Name: "a", Rule: "maxversions=1"}, {Name: "b", Rule: "maxversions=1 || maxage=30d"}}}); len(got) != 1 || got[0] != "b" {
		t.Error(got)
	}
}
