package transform

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

// Two items share a row and a family by rules with named columns. Neither deletes the other's
// cells, whichever rule comes first. Further pairs of rules follow, and the last one gives one row
// to only one item.
func TestItemsOfOneRowByNamedColumns(t *testing.T) {
	named := func(attr string) []ColumnRule { return []ColumnRule{{Attribute: attr, To: "d:" + attr}} }
	m, err := New(Spec{Source: "S", Table: "t", PrimaryKey: compositeKey, Families: families("d", "e", "f"), Rules: []Rule{
		{Name: "meta", When: when{"SK=META"}, Writes: []Write{{RowKey: template("v#{PK}"), Columns: named("a")}}},
		{Name: "stats", When: when{"SK=STATS"}, Writes: []Write{{RowKey: template("v#{PK}"), Columns: named("b")}}},
		{Name: "kind", When: when{"kind=k"}, Writes: []Write{{RowKey: template("z#{PK}#{SK}"), Columns: []ColumnRule{{Attribute: "*", To: "e"}}}}},
		{Name: "rest", Writes: []Write{{RowKey: template("z#{PK}#{SK}"), Columns: []ColumnRule{{Attribute: "*", To: "f"}}}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	meta := item("PK", attribute.String("p"), "SK", attribute.String("META"), "a", attribute.String("1"), "b", attribute.String("1"))
	stats := item("PK", attribute.String("p"), "SK", attribute.String("STATS"), "a", attribute.String("2"), "b", attribute.String("2"))
	want := `"v#p" d:"a"@0 "1"` + "\n" + `"v#p" d:"b"@0 "2"`
	for _, items := range [][]attribute.Item{{meta, stats}, {stats, meta}} {
		target := newStore()
		for _, image := range items {
			for _, r := range Load(m, []attribute.Item{image}, 1, time.Unix(1, 0)).Rows {
				target.apply(r)
			}
		}
		if got := target.String(); got != want {
			t.Errorf("%s first:\n%s\nwant:\n%s", items[0].Attributes()[1].Value.Text(), got, want)
		}
	}
}

// If only one of two writes can place an item, all of its known rows are removed, including those
// of the other write.
func TestAnItemThatOneOfTwoWritesCannotPlace(t *testing.T) {
	m, err := New(Spec{Source: "S", Table: "t", PrimaryKey: compositeKey, Families: families("d"), Rules: []Rule{{Writes: []Write{
		{RowKey: template("{tenant}#{PK}#{SK}"), Columns: []ColumnRule{{Attribute: "*", To: "d"}}, Table: "byTenant"},
		{RowKey: template("{PK}#{SK}"), Columns: []ColumnRule{{Attribute: "*", To: "d"}}},
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	keys := item("PK", attribute.String("p"), "SK", attribute.String("s"))
	const want = "[t p#s true] 1 parked"
	told := func(b Batch) string {
		text := ""
		for _, r := range b.Rows {
			text += fmt.Sprint([]any{r.Table, r.Row, r.Remove})
		}
		return fmt.Sprintf("%s %d parked", text, len(b.Parked))
	}
	if got := told(Load(m, []attribute.Item{keys}, 1, time.Unix(1, 0))); got != want {
		t.Errorf("loaded: %s, want %s", got, want)
	}
	inserted := cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(1), Keys: keys, New: keys}
	if got := told(Fold(m, []cdc.Change{inserted}, stamp)); got != want {
		t.Errorf("changed: %s, want %s", got, want)
	}
}

// If one change of a page lacks its old image, later changes do not replace it. Nothing shows the
// row that the item left.
func TestAMissingOldImageIsMissedForTheWholePage(t *testing.T) {
	m := foldMappings(t)["tenant first"]
	a := item("pk", attribute.String("p"), "tenant", attribute.String("a"))
	first, second := tenantChange(1, cdc.Modify, "", ""), tenantChange(2, cdc.Modify, "", "")
	first.Old, first.New, second.Old, second.New = attribute.Item{}, a, a, a
	if b := Fold(m, []cdc.Change{first, second}, stamp); len(b.Parked) != 1 || len(b.Rows) != 1 || !b.Rows[0].Remove {
		t.Errorf("%+v", b)
	}
}

// An item whose key no row can have is parked by a load and then by its insert. Of the two records
// the newer one stays.
func TestAnInsertSupersedesWhatALoadParked(t *testing.T) {
	long := item("pk", attribute.String(strings.Repeat("k", MaxRowKeyBytes+1)))
	inserted := cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(2), Keys: long, New: long}
	if b := Fold(foldMappings(t)["default"], []cdc.Change{inserted}, stamp); len(b.Unaddressed) != 1 || len(b.Parked) != 1 {
		t.Errorf("%+v", b)
	}
}

// The former images that a put may carry are limited for each row, so an item with two rows has its
// history in both.
func TestThePastOfEveryRowIsBoundedForItself(t *testing.T) {
	m, err := New(keepingSpec("never", Rule{Writes: []Write{
		{Columns: []ColumnRule{{Attribute: "*", To: "k"}}}, {Table: "other", Columns: []ColumnRule{{Attribute: "*", To: "k"}}}}}))
	if err != nil {
		t.Fatal(err)
	}
	list := []attribute.Attribute{{Name: "pk", Value: attribute.String("p")}}
	for i := range 9_999 {
		list = append(list, attribute.Attribute{Name: fmt.Sprint("a", i), Value: attribute.String("")})
	}
	image := attribute.NewItem(list)
	var page []cdc.Change
	for i := range uint64(5) {
		page = append(page, change(i+1, int64(100+i), image, image))
	}
	rows := Fold(m, page, Stamp{Generation: 1, Hop: 1}).Rows
	if len(rows) != 2 || len(rows[0].Past) != 4 || len(rows[1].Past) != 4 || rows[1].Before == nil {
		t.Errorf("%d rows, of which the last carries %d former images", len(rows), len(rows[len(rows)-1].Past))
	}
}
