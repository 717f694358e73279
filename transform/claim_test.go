package transform

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// ParseItemKey returns the key from an item's name, and refuses any other text.
func TestItemKeysAreReversible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		schema := drawSchema(t)
		m := mustMapping(t, schema)
		keys := drawKeys(t, schema, "item")
		if back, ok := m.ParseItemKey(m.ItemKey(keys)); !ok || !back.Equal(keys) {
			t.Fatalf("%s gives %v, %v", m.ItemKey(keys), back, ok)
		}
		other := mustMapping(t, []KeyAttribute{{"pk", attribute.KindS}, {"sk", attribute.KindN}})
		for _, text := range []string{"", "/", "S:YQ", "S:YQ/N:", "S:YQ/S:YQ", "S:YQ/N:MDE", "S:YQ/N:MQ/N:MQ", "S:Y=/N:MQ", "S:YR/N:MQ"} {
			if _, ok := other.ParseItemKey(text); ok {
				t.Fatalf("%q is taken for an item", text)
			}
		}
	})
}

// claimMappings returns mappings of all kinds with a key of PK and SK.
func claimMappings(t interface{ Fatal(...any) }) []*Mapping {
	var all []*Mapping
	for _, m := range ruleMappings(t) {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *Mapping) int { return len(a.Source) - len(b.Source) })
	return append(all, mustMapping(t, compositeKey), mustMapping(t, compositeKey, "tenant", "PK", "SK"), mustMapping(t, compositeKey, "SK", "tenant", "PK"))
}

// H86: an item claims every row that it can have, and all that it owns there. A row that does not
// name its item gives the key back. No claim touches cells of another item.
func TestH86_ClaimsCoverTheirItemsAndNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(claimMappings(t)).Draw(t, "mapping")
		s := drawSingleTable(t, m)
		for _, i := range s.items {
			p, err := m.Map(i, time.Unix(1, 0))
			if err != nil {
				continue
			}
			for _, row := range p.Rows {
				claim, ok := m.Claim(row.Table, row.Row, m.Keys(i), row.Owner != "")
				missing := row.Without(claim)
				if !ok || !claim.Remove || claim.Owner != row.Owner || claim.Item != row.Item || len(missing.Families)+len(missing.Columns) > 0 {
					t.Fatalf("row %q: claim %+v of %+v", row.Row, claim, row)
				}
				if named := row.Owner != "" || row.Origin != ""; !named && !slices.ContainsFunc(m.ItemsOf(row.Table, row.Row, true), m.Keys(i).Equal) {
					t.Fatalf("row %q does not give its item back", row.Row)
				}
				for _, o := range s.items {
					claim, ok := m.Claim(row.Table, row.Row, m.Keys(o), row.Owner != "")
					if !ok || m.ItemKey(o) == row.Item {
						continue
					}
					for _, c := range row.Cells {
						if slices.Contains(claim.Families, c.Family) || slices.Contains(claim.Columns, Column{c.Family, c.Qualifier}) {
							t.Fatalf("row %q: %s claims column %s:%s of %s", row.Row, claim.Item, c.Family, c.Qualifier, row.Item)
						}
					}
				}
			}
		}
	})
}

// The possible items of a row, by its key alone: functions are undone where possible, and the rule
// must make the row again.
func TestItemsOfRows(t *testing.T) {
	key := []KeyAttribute{{"id", attribute.KindS}, {"n", attribute.KindN}}
	for _, c := range []struct {
		when     when
		template string
		row      string
		want     string // ids and n
	}{
		{nil, "{id}#{n}", "a#1", "a 1"},
		{nil, "{id}#{n}", "a%23b#-1.5", "a#b -1.5"},
		{nil, "{id}#{n}", "a%23b#01", ""},
		{nil, "{id}#{n}", "a%24b#1", ""}, // no row of this mapping has this escape
		{nil, "{id}#{n}", "a", ""},
		{nil, "order#{id}#{n}", "order#a#1", "a 1"},
		{nil, "order#{id}#{n}", "other#a#1", ""},
		{nil, "{n | pad(4)}{id}", "0012a#b", "a#b 12"},
		{nil, "{n | pad(4)}{id}", "001xa", ""},
		{nil, "{n | newest_first(4)}{id}", "9987a", "a 12"},
		{nil, "{n | pad(4)}{id | hex}/x", "001261/x", "a 12"},
		{nil, "{n | pad(4)}{id | hex}/x", "00126/x", ""},
		{nil, "{id | reverse}#{n}", "éa#1", "aé 1"},
		{nil, "{id | salt(16)}{id}#{n}", "08a#1", ""},                // another salt
		{nil, "{id | salt(16)}{id}#{n}", saltOf("a") + "a#1", "a 1"}, // verified by computing it again
		{nil, "{at | date('yyyyMM')}{id}#{n}", "202401a#1", "a 1"},   // from an attribute that is not known
		{nil, "{tenant}/{id}#{n}", "t#%2F/a#1", "a 1"},               // the same
		{nil, "{x | sortable}{id}#{n}", "2501-a#1", "a 1"},           // its mark shows its end
		{nil, "{id | hash(4)}{n}", "abcd1", ""},                      // cannot be undone
		{when{"id^a"}, "{id}#{n}", "b#1", ""},                        // no item of the rule
		{when{"id^VIDEO#"}, "{id | after('VIDEO#')}#{n}", "7#1", "VIDEO#7 1"},
		{when{"id=fixed"}, "{n}", "7", "fixed 7"},
		{when{"id=fixed", "kind=x"}, "{kind}#{n}", "x#7", "fixed 7"},
		{when{"id=fixed", "kind=x"}, "{kind}#{n}", "y#7", ""},
	} {
		m, err := New(Spec{Source: "S", Table: "t", PrimaryKey: key, Families: families("d"), Rules: []Rule{
			{When: condition(c.when), Writes: []Write{{RowKey: template(c.template), Columns: []ColumnRule{{Attribute: "*", To: "d"}}}}}}})
		if err != nil && c.template != "{id | hash(4)}{n}" {
			t.Fatal(c.template, err)
		}
		if err != nil {
			m, _ = compile(&Spec{Source: "S", Table: "t", PrimaryKey: key, Families: families("d"), Rules: []Rule{
				{Writes: []Write{{RowKey: template(c.template), Columns: []ColumnRule{{Attribute: "*", To: "d"}}}}}}}, true)
		}
		got := ""
		for _, keys := range m.ItemsOf("t", c.row, false) {
			id, _ := keys.Get("id")
			n, _ := keys.Get("n")
			got += fmt.Sprintf("%s %s", id.Text(), n.Text())
		}
		if got != c.want {
			t.Errorf("%s, row %q: %q, want %q", c.template, c.row, got, c.want)
		}
	}
}

func saltOf(text string) string {
	result, err := salt(scalar{attribute.KindS, text}, &Call{Number: 16})
	if err != nil {
		panic(err)
	}
	return result.text
}

// condition returns nil, instead of an empty condition, if there is none.
func condition(w when) Condition {
	if w == nil {
		return nil
	}
	return w
}

func TestRowPrefix(t *testing.T) {
	for name, c := range map[string]struct {
		m    *Mapping
		want string
	}{
		"billing, two literals": {mustNew(t, billingSpec()), ""},
		"one rule":              {mustNew(t, Spec{Source: "S", Table: "t", PrimaryKey: compositeKey, Families: families("d"), Rules: []Rule{{Writes: []Write{{RowKey: template("s#{PK}#{SK}"), Columns: []ColumnRule{{Attribute: "*", To: "d"}}}}}}}), "s#"},
		"none":                  {mustMapping(t, compositeKey), ""},
	} {
		if got := c.m.RowPrefix(c.m.Table); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func mustNew(t interface{ Fatal(...any) }, spec Spec) *Mapping {
	m, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	return m
}
