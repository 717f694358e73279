package transform

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Each property of a mapping that keeps rows from giving their items back is reported.
func TestNotInvertible(t *testing.T) {
	named := func(c ColumnRule) func(*Spec) {
		return func(s *Spec) { s.Rules = columnsTo("", c, star(AsDefault)) }
	}
	rowKey := func(text string) func(*Spec) {
		return func(s *Spec) { s.Rules = columnsTo(text, star(AsDefault)) }
	}
	for name, c := range map[string]struct {
		change func(*Spec)
		why    []string // beginnings
	}{
		"several sources": {func(s *Spec) { s.Merged = true }, []string{"several source tables write the target table"}},
		"kept versions":   {func(s *Spec) { s.KeepVersions, s.Families = true, families("d=maxversions=3") }, []string{"keep_versions"}},
		"expiry by cells": {func(s *Spec) { s.TTL, s.Families = TTL{"until", ExpireByGC}, families("d=maxage=1h") },
			[]string{"expire: gc lets Bigtable", "family d (maxage=1h) lets Bigtable"}},
		"an age rule":        {func(s *Spec) { s.Families = families("d=maxversions=1 || maxage=30d") }, []string{"family d (maxversions=1 || maxage=30d) lets Bigtable"}},
		"an age rule, spare": {func(s *Spec) { s.Families = families("d", "e=maxage=30d"); s.Rules = columnsTo("", star(AsDefault)) }, nil},
		"age and versions":   {func(s *Spec) { s.Families = families("d=maxversions=1 && maxage=30d") }, nil},
		"two rules": {func(s *Spec) {
			s.Rules = append(columnsTo("a#{PK}#{SK}", star(AsDefault)), columnsTo("{PK}#{SK}", star(AsDefault))...)
			s.Rules[0].Name, s.Rules[0].When = "first", when{"kind=a"}
		}, []string{"items follow 2 rules", "rule first has a condition"}},
		"an ignored item": {func(s *Spec) { s.Rules = []Rule{{Ignore: true}} }, []string{"rule 1 ignores its items"}},
		"two rows": {func(s *Spec) {
			s.Rules = columnsTo("a#{PK}#{SK}", star(AsDefault))
			s.Rules[0].Writes = append(s.Rules[0].Writes, columnsTo("b#{PK}#{SK}", star(AsDefault))[0].Writes...)
		}, []string{"rule 1 writes an item to 2 rows"}},
		"another table": {func(s *Spec) { s.Rules = columnsTo("", star(AsDefault)); s.Rules[0].Writes[0].Table = "u" }, []string{"rule 1 writes table u, and the target table is t"}},
		"a folded row": {func(s *Spec) {
			s.Rules = []Rule{{Writes: []Write{{RowKey: template("{PK}"), Cell: &CellRule{Family: "d", Qualifier: template("{SK}"), As: AsDynamoDBJSON}}}}}
		}, []string{`the row key does not show "SK"`, "rule 1 writes an item into one cell"}},
		"another attribute":  {rowKey("{tenant}#{PK}#{SK}"), []string{`the row key uses "tenant"`}},
		"lower case":         {rowKey("{PK | lower}#{SK}"), []string{`the row key does not show "PK": lower cannot be undone`}},
		"a part":             {rowKey("{PK | before('#')}#{SK}"), []string{`the row key does not show "PK": before cannot be undone`}},
		"a hash":             {rowKey("{PK | hash(4)}#{SK}"), []string{`the row key does not show "PK": hash cannot be undone`}},
		"an ambiguous end":   {rowKey("{PK | raw}#{SK}"), []string{`the row key does not show "PK": the row does not show where it ends`, `the row key does not show "SK": the row`}},
		"doubles":            {named(ColumnRule{Attribute: "n", To: "d:n", As: AsFloat64}), []string{`attribute "n" is written as: float64, which rounds numbers`}},
		"vectors":            {named(ColumnRule{Attribute: "n", To: "d:n", As: AsFloat32s}), []string{`attribute "n" is written as: float32s, which rounds numbers`}},
		"columns of members": {named(ColumnRule{Attribute: "n", To: "d:n", As: AsColumns}), []string{`attribute "n" is written as: columns`}},
		"a list of cells": {func(s *Spec) {
			s.Families = families("d", "l=never")
			named(ColumnRule{Attribute: "n", To: "l:n", As: AsCells})(s)
		}, []string{`attribute "n" is written as: cells`}},
		"a sum": {func(s *Spec) {
			s.Families = families("d", "c=never:intsum")
			named(ColumnRule{Attribute: "n", To: "c:n", As: AsCounter})(s)
		}, []string{`attribute "n" is written as: counter`}},
		"flattened":         {func(s *Spec) { s.Rules = columnsTo("", star(AsFlattened)) }, []string{`attribute "*" is written as: flattened`}},
		"Google's utility":  {func(s *Spec) { s.Rules = columnsTo("", star(AsGoogleUtility)) }, []string{`attribute "*" is written as: google_utility`}},
		"no key column":     {func(s *Spec) { s.Rules = columnsTo("", ColumnRule{Attribute: "a", To: "d:a"}) }, []string{"no column holds an attribute of the primary key"}},
		"keys are dropped":  {func(s *Spec) { s.Drop = []string{"PK", "SK"} }, []string{"no column holds an attribute of the primary key"}},
		"one is dropped":    {func(s *Spec) { s.Drop = []string{"PK"} }, nil},
		"a hidden expiry":   {func(s *Spec) { s.TTL, s.Drop = TTL{"until", FollowDeletes}, []string{"until"} }, []string{`no column holds the time to live "until"`}},
		"a hidden version":  {func(s *Spec) { s.VersionAttribute, s.Drop = "rev", []string{"rev"} }, []string{`no column holds the version attribute "rev"`}},
		"expiry by deletes": {func(s *Spec) { s.TTL = TTL{"until", FollowDeletes} }, nil},
	} {
		spec := Spec{Source: "T", Table: "t", Families: families("d"), PrimaryKey: compositeKey}
		c.change(&spec)
		m, _ := compile(&spec, true) // some of these mappings are refused for other reasons too
		got := m.NotInvertible()
		if !slices.EqualFunc(got, c.why, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", name, got, c.why)
		}
		if why := got; len(why) > 0 {
			if _, err := m.Invert("p#s", nil, nil); err == nil || !strings.Contains(err.Error(), why[0]) {
				t.Errorf("%s: %v", name, err)
			}
		}
		spec.PrimaryKey = nil
		for _, why := range spec.NotInvertible() {
			if !slices.Contains(got, why) {
				t.Errorf("%s: without the primary key, %s", name, why)
			}
		}
	}
	tenant := mustMapping(t, compositeKey, "tenant", "PK", "SK")
	if len(tenant.NotInvertible()) != 1 || len(mustMapping(t, compositeKey).NotInvertible()) != 0 {
		t.Error("a mapping without rules", tenant.NotInvertible())
	}
}

func TestDropped(t *testing.T) {
	for name, want := range map[string]string{
		"no rules":          "[] false",
		"columns by name":   "[gone y] false",
		"only some columns": "[] true",
	} {
		names, others := invertible(t, name).Dropped()
		if got := fmt.Sprint(names, others); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	m, err := New(Spec{Source: "T", Table: "t", PrimaryKey: compositeKey, Families: families("d"), Drop: []string{"SK", "b", "a"}})
	if err != nil {
		t.Fatal(err)
	}
	if names, others := m.Dropped(); fmt.Sprint(names, others) != "[a b] false" {
		t.Error(names, others)
	}
	if names, others := ruleMappings(t)["video"].Dropped(); names != nil || others {
		t.Error(names, others)
	}
}
