package transform

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

func keepingSpec(family string, rules ...Rule) Spec {
	f, err := ParseFamily("k", family)
	if err != nil {
		panic(err)
	}
	return Spec{Source: "S", Table: "t", PrimaryKey: []KeyAttribute{{Name: "pk", Type: attribute.KindS}}, Families: []Family{f}, Rules: rules, KeepVersions: true}
}

// Families keep versions as far as their rules allow. An age rule, alone or within a rule, is
// refused, and a rule that keeps one cell causes a warning.
func TestKeepVersionsNeedsFamiliesWithoutAge(t *testing.T) {
	for rule, want := range map[string]string{
		"never": "", "maxversions=2": "", "maxversions=1 && maxversions=3": "",
		"maxversions=1": "warning keeps nothing", "maxversions=3 || maxversions=1": "warning keeps nothing",
		"maxage=30d": "needs families", "maxversions=9 || maxage=30d": "needs families", "maxversions=1 && maxage=30d": "needs families",
		"never:intsum": "counts only",
	} {
		spec := keepingSpec(rule)
		if strings.HasSuffix(rule, "intsum") {
			spec.Rules = []Rule{{Writes: []Write{{Columns: []ColumnRule{{Attribute: "n", To: "k", As: AsCounter}}}}}}
			want = ""
		}
		got := ""
		for _, f := range Check(spec) {
			got += f.What
			if f.Warning != (f.Problem == KeepsNothing) || f.Problem != KeepsNothing && f.Problem != NoHistory {
				t.Errorf("%s: %+v", rule, f)
			}
		}
		if word := strings.TrimPrefix(want, "warning "); (word == "") != (got == "") || !strings.Contains(got, word) {
			t.Errorf("%s: %q, want %q", rule, got, want)
		}
	}
}

func change(n uint64, second int64, old, image attribute.Item) cdc.Change {
	c := cdc.Change{Event: cdc.Modify, Sequence: cdc.SequenceOf(n), Time: time.Unix(second, 0), Keys: attribute.NewItem(nil), Old: old, New: image}
	for _, i := range []attribute.Item{old, image} {
		if v, ok := i.Get("pk"); ok {
			c.Keys = attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: v}})
		}
	}
	switch {
	case !old.Exists():
		c.Event = cdc.Insert
	case !image.Exists():
		c.Event = cdc.Remove
	}
	return c
}

// A put carries the item's cells in its row after each change of the page, and before the first.
// They are nil if the item was removed, could not be mapped, or was elsewhere.
func TestPutsCarryTheImagesOfTheirPage(t *testing.T) {
	rowKey, err := ParseTemplate("{place}#{pk}")
	if err != nil {
		t.Fatal(err)
	}
	spec := keepingSpec("never", Rule{Writes: []Write{{RowKey: rowKey, Columns: []ColumnRule{{Attribute: "a", To: "k"}}}}})
	m, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	image := func(place, a string) attribute.Item {
		list := []attribute.Attribute{{Name: "pk", Value: attribute.String("p")}, {Name: "a", Value: attribute.String(a)}}
		if place != "" {
			list = append(list, attribute.Attribute{Name: "place", Value: attribute.String(place)})
		}
		return attribute.NewItem(list)
	}
	images := []attribute.Item{image("x", "0"), image("x", "1"), image("y", "2"), image("x", "3"), {}, image("x", "4"), image("", "5"), image("x", "6"), image("x", "7")}
	var page []cdc.Change
	for i := 1; i < len(images); i++ {
		page = append(page, change(uint64(i), int64(100+i), images[i-1], images[i]))
	}
	b := Fold(m, page, Stamp{Generation: 1, Hop: 1})
	if len(b.Rows) != 2 || len(b.Parked) != 0 {
		t.Fatalf("%+v", b)
	}
	show := func(cells []Cell) string {
		if cells == nil {
			return "-"
		}
		text := ""
		for _, c := range cells {
			text += fmt.Sprintf("%s@%d", c.Value, c.Timestamp/1_000_000)
		}
		return text
	}
	put, remove := b.Rows[0], b.Rows[1]
	if !remove.Remove || remove.Row != "y#p" || remove.Past != nil || remove.Before != nil {
		t.Errorf("%+v", remove)
	}
	var past []string
	for _, cells := range put.Past {
		past = append(past, show(cells))
	}
	got := fmt.Sprintf("%s keeps %v: %s before, then %s, then %s", put.Row, put.Keep, show(put.Before), strings.Join(past, " "), show(put.Cells))
	if want := "x#p keeps true: 0@0 before, then 1@101 - 3@103 - 4@105 - 6@107, then 7@108"; got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	spec.KeepVersions = false
	if m, err = New(spec); err != nil {
		t.Fatal(err)
	}
	if row := Fold(m, page, Stamp{Generation: 1, Hop: 1}).Rows[0]; row.Keep || row.Past != nil || row.Before != nil {
		t.Errorf("%+v", row)
	}
}

// If a page changes one large item again and again, its oldest images are left out, and so are the
// cells before them.
func TestPastOfAPageIsBounded(t *testing.T) {
	m, err := New(keepingSpec("never"))
	if err != nil {
		t.Fatal(err)
	}
	list := []attribute.Attribute{{Name: "pk", Value: attribute.String("p")}}
	for i := range 9_999 {
		list = append(list, attribute.Attribute{Name: fmt.Sprint("a", i), Value: attribute.String("")})
	}
	image := attribute.NewItem(list)
	var page []cdc.Change
	for i := range uint64(8) {
		page = append(page, change(i+1, int64(100+i), image, image))
	}
	row := Fold(m, page, Stamp{Generation: 1, Hop: 1}).Rows[0]
	if len(row.Past) != 4 || row.Before != nil || row.Past[0][0].Timestamp != 103_000_000 {
		t.Errorf("%d images of the past, the first at %d", len(row.Past), row.Past[0][0].Timestamp)
	}
}

// Counters have no history, so keeping versions requires nothing of their families, and as much as
// ever of the others. In every image a counter has time 0 and is added, and the values beside it
// have the time of their change.
func TestKeepVersionsBesideCounters(t *testing.T) {
	spec := keepingSpec("maxversions=9", Rule{Writes: []Write{{Columns: []ColumnRule{{Attribute: "a", To: "k"}, {Attribute: "n", To: "c:n", As: AsCounter}}}}})
	for _, c := range []struct{ kept, counters, want string }{
		{"maxversions=9", "maxversions=1:intsum", ""}, {"never", "never:intmax", ""},
		{"maxversions=1", "never:intsum", "keep_versions keeps nothing in family k (maxversions=1)"},
		{"maxage=9d", "maxversions=1:intsum", "keep_versions needs families without an age rule, but family k (maxage=9d) has one"},
	} {
		spec.Families = families("k="+c.kept, "c="+c.counters)
		got := ""
		for _, f := range Check(spec) {
			got += f.What
		}
		if got != c.want {
			t.Errorf("%s beside %s: %q, want %q", c.kept, c.counters, got, c.want)
		}
	}
	spec.Families = families("k=maxversions=9", "c=maxversions=1:intsum")
	m, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	image := func(a, n string) attribute.Item {
		return item("pk", attribute.String("p"), "a", attribute.String(a), "n", number(n))
	}
	b := Fold(m, []cdc.Change{change(1, 101, image("0", "5"), image("1", "6")), change(2, 102, image("1", "6"), image("2", "7"))}, Stamp{Generation: 1, Hop: 1})
	if len(b.Rows) != 1 || len(b.Rows[0].Past) != 1 {
		t.Fatalf("%+v", b)
	}
	show := func(cells []Cell) (text string) {
		for _, c := range cells {
			text += fmt.Sprintf("%s:%s=%q@%d add %v; ", c.Family, c.Qualifier, c.Value[len(c.Value)-1:], c.Timestamp/1_000_000, c.Add)
		}
		return text
	}
	row := b.Rows[0]
	got := show(row.Before) + "then " + show(row.Past[0]) + "then " + show(row.Cells)
	if want := `k:a="0"@0 add false; c:n="\x05"@0 add true; then k:a="1"@101 add false; c:n="\x06"@0 add true; then k:a="2"@102 add false; c:n="\a"@0 add true; `; !row.Keep || got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}
