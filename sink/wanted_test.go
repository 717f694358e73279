package sink_test

import (
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/expression"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Two rules may give an item the same row and different families. The row may hold an image of one
// rule, while a repair knows only images of the other one. A remove that left the first rule's cells
// would leave them under a tombstone, which no sweep visits.
func TestARemoveCoversTheRulesOfUnknownImages(t *testing.T) {
	rowKey, err := transform.ParseTemplate("n#{pk}")
	if err != nil {
		t.Fatal(err)
	}
	rule := func(when, family string) transform.Rule {
		condition, err := expression.ParseWhen(when)
		if err != nil {
			t.Fatal(err)
		}
		return transform.Rule{When: condition, Writes: []transform.Write{{RowKey: rowKey, Columns: []transform.ColumnRule{{Attribute: "*", To: family}}}}}
	}
	ignore := transform.Rule{Ignore: true}
	m, err := transform.New(transform.Spec{
		Source: "S", Table: "t", PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}},
		Families: []transform.Family{{Name: "a"}, {Name: "b"}}, Rules: []transform.Rule{rule("kind = 'a'", "a"), rule("kind = 'b'", "b"), ignore},
	})
	if err != nil {
		t.Fatal(err)
	}
	item := func(kind string) attribute.Item {
		return attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("1")}, {Name: "kind", Value: attribute.String(kind)}})
	}
	for now, want := range map[string][]string{"a": {"a", "b"}, "c": {"a", "b"}} {
		rows, err := sink.Wanted(m, m.Keys(item("b")), []attribute.Item{item("b")}, item(now), time.Unix(1, 0))
		if err != nil || len(rows) != 1 || rows[0].Remove != (now == "c") {
			t.Fatalf("now %s: %+v, %v", now, rows, err)
		}
		families := slices.Clone(rows[0].Families)
		if slices.Sort(families); !slices.Equal(families, want) {
			t.Errorf("now %s: families %v are deleted, want %v", now, families, want)
		}
	}
}
