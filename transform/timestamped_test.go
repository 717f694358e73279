package transform

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

// An item moves a→b→c within a page. Each row names the columns of the old images there, and the
// exact rows equal those of a fold without dual writes.
func TestTimestampedNamesWhatOldImagesHad(t *testing.T) {
	m, err := NewMapping("T", "t", "d", []KeyAttribute{{"k", attribute.KindS}}, "at", "k")
	if err != nil {
		t.Fatal(err)
	}
	image := func(at string, names ...string) attribute.Item {
		list := []attribute.Attribute{{Name: "k", Value: attribute.String("x")}, {Name: "at", Value: attribute.String(at)}}
		for _, n := range names {
			list = append(list, attribute.Attribute{Name: n, Value: attribute.String("1")})
		}
		return attribute.NewItem(list)
	}
	a, b, c := image("a", "p"), image("b", "q"), image("c")
	second := time.Unix(100, 0)
	changes := []cdc.Change{
		{Event: cdc.Modify, Sequence: cdc.SequenceOf(1), Time: second, Keys: m.Keys(a), Old: a, New: b},
		{Event: cdc.Modify, Sequence: cdc.SequenceOf(2), Time: second, Keys: m.Keys(a), Old: b, New: c},
	}
	stamp := Stamp{Generation: 1, Hop: 1}
	plain := Fold(m, changes, stamp)
	stamp.DualWrites = true
	exact := Fold(m, changes, stamp)
	first := exact.Timestamped()
	want := []string{"a#x: at k p", "b#x: at k q", "c#x: "}
	for i, row := range first.Rows {
		var names []string
		for _, cell := range row.Named {
			names = append(names, cell.Qualifier)
		}
		slices.Sort(names)
		if got := row.Row + ": " + strings.Join(names, " "); got != want[i] {
			t.Errorf("row names %q, want %q", got, want[i])
		}
		if row.Version.Count() != CountTimestamped || !row.Timestamped || row.Second != 100_000_000 || row.Remove != (i < 2) {
			t.Errorf("first row %+v", row)
		}
		if e, p := exact.Rows[i], plain.Rows[i]; e.Version != p.Version || e.Timestamped || e.Named != nil || e.Remove != p.Remove || !slices.Equal(e.Families, p.Families) {
			t.Errorf("exact row %+v, want %+v", e, p)
		}
	}
	if small, large := (&Batch{}).Size(), exact.Size(); small != 0 || large < 500 {
		t.Errorf("sizes %d, %d", small, large)
	}
}
