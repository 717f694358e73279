package transform

import (
	"fmt"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// A list is a column of cells, the last element newest, and no other value of the item is in that
// column.
func TestListsAsCells(t *testing.T) {
	spec := Spec{Source: "T", Table: "t", PrimaryKey: compositeKey[:1], Families: families("d", "lists"), Rules: []Rule{{Writes: []Write{{Columns: []ColumnRule{
		{Attribute: "*", To: "d"}, {Attribute: "events", To: "lists", As: AsCells}, {Attribute: "notes", To: "lists:n", As: AsCells},
		{Attribute: "s", To: "d:s", As: AsColumns}}}}}}}
	spec.Families[1].GC = GC{}
	m, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	element := attribute.Map([]attribute.Attribute{{Name: "by", Value: attribute.String("ana")}})
	for want, image := range map[string]attribute.Item{
		`d:PK@7000="p" lists:events@1000="a" lists:events@2000="{\"by\":\"ana\"}" lists:events@3000="a" lists:n@1000="1"`: item("PK", attribute.String("p"),
			"events", attribute.List([]attribute.Value{attribute.String("a"), element, attribute.String("a")}), "notes", attribute.List([]attribute.Value{number("1")})),
		`d:PK@7000="p"`: item("PK", attribute.String("p"), "events", attribute.List(nil)),
		`cannot be mapped: attribute "events" is SS; as: cells takes L`: item("PK", attribute.String("p"), "events", attribute.StringSet([]string{"a"})),
		`cannot be mapped: two values take the same column of family d`: item("PK", attribute.String("p"), "s", attribute.Map([]attribute.Attribute{{Name: "x", Value: attribute.Null()}}), "s.x", attribute.Null()),
	} {
		cells, err := m.Cells(image, 7000)
		var words []string
		for _, c := range cells {
			words = append(words, fmt.Sprintf("%s:%s@%d=%q", c.Family, c.Qualifier, c.Timestamp, c.Value))
		}
		got := strings.Join(words, " ")
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// Every element stays, so a family that collects any of them is refused for lists.
func TestListsNeedAFamilyThatKeepsThem(t *testing.T) {
	for rule, fine := range map[string]bool{"never": true, "maxversions=1": false, "maxversions=100": false, "maxage=30d": false} {
		family, err := ParseFamily("d", rule)
		if err != nil {
			t.Fatal(err)
		}
		found := Check(Spec{Source: "T", Table: "t", PrimaryKey: compositeKey[:1], Families: []Family{family},
			Rules: []Rule{{Writes: []Write{{Columns: []ColumnRule{{Attribute: "l", To: "d:l", As: AsCells}}}}}}})
		if fine != (len(found) == 0) || !fine && !strings.Contains(found[0].What, "does not keep all of them") {
			t.Errorf("%s: %v", rule, found)
		}
	}
	found := Check(Spec{Source: "T", Table: "t", PrimaryKey: compositeKey[:1], Families: []Family{{Name: "d"}},
		Rules: []Rule{{Writes: []Write{{Columns: []ColumnRule{{Attribute: "*", To: "d", As: AsCells}}}}}}})
	if len(found) != 1 || !strings.Contains(found[0].What, "as: cells works only with a single attribute") {
		t.Error(found)
	}
}
