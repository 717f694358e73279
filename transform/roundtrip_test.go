package transform

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// drawValue draws a value of any type, nested up to the given depth.
func drawValue(t *rapid.T, depth int) attribute.Value {
	text := rapid.StringOfN(rapid.SampledFrom([]rune{'a', 'é', '"', '\\', '\n', 0x2028, '😀', 0}), 0, 4, -1)
	most := 9
	if depth == 0 {
		most = 7
	}
	switch rapid.IntRange(0, most).Draw(t, "type") {
	case 0:
		return attribute.String(text.Draw(t, "S"))
	case 1:
		if rapid.Bool().Draw(t, "any number") {
			return drawAny(t, "N")
		}
		return number(drawNumber(t, "N"))
	case 2:
		return drawBytes(t, "B")
	case 3:
		return attribute.Bool(rapid.Bool().Draw(t, "BOOL"))
	case 4:
		return attribute.Null()
	case 5:
		return attribute.StringSet(rapid.SliceOfNDistinct(text, 1, 3, rapid.ID[string]).Draw(t, "SS"))
	case 6:
		return mustSet(rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"1", "-2", "0.5", "1e20", "-1e-130", "99999999999999999999999999999999999999"}), 1, 3, rapid.ID[string]).Draw(t, "NS")...)
	case 7:
		var members [][]byte
		for _, m := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"", "a", "\x00", "\xff", "\x80a"}), 1, 3, rapid.ID[string]).Draw(t, "BS") {
			members = append(members, []byte(m))
		}
		return attribute.BinarySet(members)
	case 8:
		var list []attribute.Value
		for range rapid.IntRange(0, 3).Draw(t, "L") {
			list = append(list, drawValue(t, depth-1))
		}
		return attribute.List(list)
	default:
		var members []attribute.Attribute
		for _, name := range rapid.SliceOfNDistinct(text, 0, 3, rapid.ID[string]).Draw(t, "M") {
			members = append(members, attribute.Attribute{Name: name, Value: drawValue(t, depth-1)})
		}
		return attribute.Map(members)
	}
}

// Every value survives a cell of DynamoDB JSON unchanged, and so does a whole folded item.
func TestDynamoDBJSONLosesNothing(t *testing.T) {
	column, err := New(Spec{Source: "T", Table: "t", PrimaryKey: compositeKey[:1], Families: families("d"),
		Rules: []Rule{{Writes: []Write{{Columns: []ColumnRule{{Attribute: "*", To: "d", As: AsDynamoDBJSON}}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	folded, err := New(Spec{Source: "T", Table: "t", PrimaryKey: compositeKey[:1], Families: families("d"),
		Rules: []Rule{{Writes: []Write{{RowKey: template("one"), Cell: &CellRule{Family: "d", Qualifier: template("{PK}"), As: AsDynamoDBJSON}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		image := item("PK", attribute.String("p"), "v", drawValue(t, 3), "w", drawValue(t, 1))
		cells, err := column.Cells(image, 0)
		if err != nil {
			t.Fatal(err)
		}
		text := "{"
		for i, c := range cells {
			if i > 0 {
				text += ","
			}
			text += fmt.Sprintf("%q:%s", c.Qualifier, c.Value)
		}
		if back, err := attribute.UnmarshalItem([]byte(text + "}")); err != nil || !back.Equal(image) {
			t.Fatalf("%s: %v", text, err)
		}
		if cells, err = folded.Cells(image, 0); err != nil || len(cells) != 1 {
			t.Fatal(cells, err)
		}
		if back, err := attribute.UnmarshalItem(cells[0].Value); err != nil || !back.Equal(image) {
			t.Fatalf("%s: %v", cells[0].Value, err)
		}
	})
}

// H37, H73: no two items ever share an address: a row and version column, or a column that both
// own.
func TestH37_H73_RulesKeepItemsApart(t *testing.T) {
	for name, m := range ruleMappings(t) {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := drawSingleTable(t, m)
				owners := map[string]string{}
				for _, c := range s.changes {
					for _, image := range []attribute.Item{c.Old, c.New} {
						if !image.Exists() {
							continue
						}
						p, err := m.Map(image, time.Unix(0, 0))
						if err != nil {
							continue
						}
						for _, r := range p.Rows {
							names := []string{"version " + r.Owner}
							for _, column := range r.Columns {
								names = append(names, fmt.Sprintf("column %q", column))
							}
							for _, family := range r.Families {
								names = append(names, "family "+family)
							}
							for _, owned := range names {
								at := fmt.Sprintf("%q %s", r.Row, owned)
								if other, taken := owners[at]; taken && other != r.Item {
									t.Fatalf("%s belongs to two items", at)
								}
								owners[at] = r.Item
							}
						}
					}
				}
			})
		})
	}
}
