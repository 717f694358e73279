package transform

import (
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// beginsA is a condition of which the compiler knows only the attribute.
type beginsA struct{}

func (beginsA) Match(item attribute.Item) bool {
	v, _ := item.Get("id")
	return strings.HasPrefix(v.Text(), "a")
}
func (beginsA) Attributes() []string { return []string{"id"} }

// texts returns all texts over the alphabet, up to the given length.
func texts(alphabet string, longest int) []string {
	var out []string
	last := []string{""}
	for range longest {
		var next []string
		for _, text := range last {
			for _, c := range alphabet {
				next = append(next, text+string(c))
			}
		}
		out, last = append(out, next...), next
	}
	return out
}

// A part of a table's name is escaped like an attribute, so its end can be found.
func TestAPartOfATableNameIsEscaped(t *testing.T) {
	row := func(name, id string) string {
		m, err := New(Spec{Source: "T_" + name, Table: "t", Merged: true, PrimaryKey: []KeyAttribute{{"id", attribute.KindS}}, Families: families("d"),
			Captures: map[string]string{"name": name},
			Rules:    []Rule{{Writes: []Write{{RowKey: template("{$name}_{id}"), Columns: []ColumnRule{{Attribute: "*", To: "d"}}}}}}})
		if err != nil {
			t.Fatal(err)
		}
		at, err := m.Row(item("id", attribute.String(id)))
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	if a, b := row("a", "b_1"), row("a_b", "1"); a == b {
		t.Errorf("two tables have the row %q", a)
	}
}

// For any templates that are accepted for a pattern, no two of its tables share a row.
func TestRowsOfAPatternDiffer(t *testing.T) {
	varies := []Varying{{"name", 0}, {"year", 2}}
	key := []KeyAttribute{{"id", attribute.KindS}}
	names, ids := texts("a01_-", 2), texts("a01_#", 3)
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		template := func(label string) *Template {
			return rapid.Custom(func(t *rapid.T) *Template {
				parts := rapid.Permutation([]string{"{$name}", "{$year}", "{id}"}).Draw(t, "parts")
				text := rapid.SampledFrom([]string{"", "", "a", "#"}).Draw(t, "first")
				for _, part := range parts {
					text += part + rapid.SampledFrom([]string{"", "#", "_", "-", "0#", "a", "-#"}).Draw(t, "delimiter")
				}
				parsed, _ := ParseTemplate(text)
				return parsed
			}).Filter(func(parsed *Template) bool { return parsed != nil }).Draw(t, label)
		}
		write := func(label string) []Write {
			return []Write{{RowKey: template(label), Columns: []ColumnRule{{Attribute: "*", To: "d"}}}}
		}
		spec := Spec{Source: "T", Table: "t", Merged: true, Families: families("d"), Varies: varies, Captures: map[string]string{"name": "x", "year": "11"},
			Rules: []Rule{{Writes: write("row")}}}
		if rapid.Bool().Draw(t, "two rules") {
			spec.Rules = append([]Rule{{When: beginsA{}, Writes: write("other row")}}, spec.Rules...)
			spec.Families = append(spec.Families, families("e")...)
			spec.Rules[0].Writes[0].Columns[0].To = "e" // so that the rules may share a row of one table
		}
		if len(CheckMerged([]Spec{spec})) > 0 {
			return // the templates were refused
		}
		owners := map[string]map[string]string{} // by row, the captures of the table that has it
		for _, name := range names {
			for _, year := range []string{"00", "01", "11"} {
				table := spec
				table.Varies, table.PrimaryKey, table.Captures = nil, key, map[string]string{"name": name, "year": year}
				m, err := New(table)
				if err != nil {
					continue // for example two items of one table, which Check reports
				}
				accepted++
				for _, id := range ids {
					rows, err := m.Addresses(attribute.NewItem([]attribute.Attribute{{Name: "id", Value: attribute.String(id)}}))
					if err != nil {
						t.Fatal(err)
					}
					owner, taken := owners[rows[0].Row]
					if taken && !maps.Equal(owner, table.Captures) {
						t.Fatalf("tables %v and %v have the row %q", owner, table.Captures, rows[0].Row)
					}
					owners[rows[0].Row] = table.Captures
				}
			}
		}
	})
	if accepted < 100 {
		t.Errorf("only %d tables of patterns were accepted", accepted)
	}
}

// If two rules begin with the same parts of the table's name in different widths, the tables are
// not kept apart. For example, 1 is 01 in one rule and 0001 in the other. The latter equals 00 with
// an item that begins with 01.
func TestWidthsOfATableNameMustBeTheSame(t *testing.T) {
	found := func(one, other string) []Finding {
		write := func(row, family string) []Write {
			return []Write{{RowKey: template(row), Columns: []ColumnRule{{Attribute: "*", To: family}}}}
		}
		return CheckMerged([]Spec{{Source: "T", Table: "t", Merged: true, Families: families("d", "e"), Varies: []Varying{{"n", 0}}, Captures: map[string]string{"n": "1"},
			Rules: []Rule{{When: beginsA{}, Writes: write(one, "d")}, {Writes: write(other, "e")}}}})[0]
	}
	if f := found("{$n | pad(4)}{id}", "{$n | pad(4)}{id}"); len(f) > 0 {
		t.Errorf("of one width: %+v", f)
	}
	if f := found("{$n | pad(2)}{id}", "{$n | pad(4)}{id}"); len(f) != 1 || f[0].Problem != KeyCollision {
		t.Errorf("of two widths: %+v", f)
	}
}

// If several source tables share a target, each row names its source table, because its key does
// not.
func TestRowsOfMergedTablesSayWhoseTheyAre(t *testing.T) {
	for _, merged := range []bool{false, true} {
		m, err := New(Spec{Source: "T", Table: "t", Merged: merged, PrimaryKey: []KeyAttribute{{"id", attribute.KindS}}, Families: families("d")})
		if err != nil {
			t.Fatal(err)
		}
		rows, err := m.Addresses(item("id", attribute.String("1")))
		if err != nil || (rows[0].Origin == "T/"+rows[0].Item) != merged {
			t.Errorf("merged %v: %+v, %v", merged, rows, err)
		}
	}
}
