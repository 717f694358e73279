package transform

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

func describeFindings(list []Finding) string {
	var lines []string
	for _, f := range list {
		kind := "error"
		if f.Warning {
			kind = "warning"
		}
		lines = append(lines, fmt.Sprintf("%s %d/%d %s %s: %s", kind, f.Rule, f.Write, f.Field, f.Name, f.What))
	}
	return strings.Join(lines, "\n")
}

// Every finding says what to do.
func TestCheckFinds(t *testing.T) {
	column := func(attr, to string, as Encoding) ColumnRule {
		return ColumnRule{Attribute: attr, To: to, As: as}
	}
	star := []ColumnRule{{Attribute: "*", To: "d"}}
	rule := func(w when, rowKey string, columns ...ColumnRule) Rule {
		r := Rule{Writes: []Write{{RowKey: template(rowKey), Columns: columns}}}
		if w != nil {
			r.When, r.Text = w, fmt.Sprint(w)
		}
		return r
	}
	cell := func(w when, rowKey, family, qualifier string) Rule {
		r := Rule{Writes: []Write{{RowKey: template(rowKey), Cell: &CellRule{Family: family, Qualifier: template(qualifier), As: AsJSON}}}}
		if w != nil {
			r.When, r.Text = w, fmt.Sprint(w)
		}
		return r
	}
	for name, c := range map[string]struct {
		families []Family
		rules    []Rule
		ttl      TTL
		want     []string // problems, in order; "w" marks a warning
		text     string   // part of the first finding and its fix
	}{
		"default":                 {families("d"), nil, TTL{}, nil, ""},
		"two families, no rule":   {families("d", "e"), nil, TTL{}, []string{"bad"}, "no rule maps"},
		"sort key missing":        {families("d"), []Rule{rule(nil, "{PK}", star...)}, TTL{}, []string{"injective"}, "it lacks SK|add #{SK} at the end of row_key"},
		"lower":                   {families("d"), []Rule{rule(nil, "{PK | lower}#{SK}", star...)}, TTL{}, []string{"injective"}, "lower makes different values of PK equal|add #{PK}"},
		"lower, carried later":    {families("d"), []Rule{rule(nil, "{PK | lower}#{SK}#{PK}", star...)}, TTL{}, nil, ""},
		"hash as salt":            {families("d"), []Rule{rule(nil, "{PK | hash(4)}#{PK}#{SK}", star...)}, TTL{}, nil, ""},
		"after without condition": {families("d"), []Rule{rule(nil, "{PK | after('V#')}#{SK}", star...)}, TTL{}, []string{"injective"}, "add begins_with(PK, \"V#\") to `when`"},
		"after with condition":    {families("d"), []Rule{rule(when{"PK^V#"}, "{PK | after('V#')}#{SK}", star...)}, TTL{}, nil, ""},
		"after of a longer one":   {families("d"), []Rule{rule(when{"PK^V#1"}, "{PK | after('V#')}#{SK}", star...)}, TTL{}, nil, ""},
		"after of what it became": {families("d"), []Rule{rule(when{"PK^V#"}, "{PK | reverse | after('V#')}#{SK}", star...)}, TTL{}, []string{"injective"}, "after makes different values"},
		"sort key is fixed":       {families("d"), []Rule{rule(when{"SK=META"}, "{PK}", star...)}, TTL{}, nil, ""},
		"sort key is the other":   {families("d"), []Rule{rule(when{"SK==PK"}, "{PK}", star...)}, TTL{}, nil, ""},
		"raw before another":      {families("d"), []Rule{rule(nil, "{PK | raw}#{SK}", star...)}, TTL{}, []string{"injective"}, "raw"},
		"no delimiter":            {families("d"), []Rule{rule(nil, "{PK}{SK}", star...)}, TTL{}, []string{"injective"}, "have no separator"},
		"tenant":                  {families("d"), []Rule{rule(nil, "{t}#{PK}#{SK}", star...)}, TTL{}, []string{"w moves"}, "NEW_AND_OLD_IMAGES"},
		"condition on an attribute": {families("d"), []Rule{rule(when{"kind=a"}, "{PK}#{SK}", star...)}, TTL{},
			[]string{"w moves"}, `the condition uses "kind"`},
		"cell without the sort key": {families("d"), []Rule{cell(nil, "{PK}", "d", "x")}, TTL{}, []string{"injective"}, "add {SK} at the end of the cell's column"},
		"cell":                      {families("d"), []Rule{cell(nil, "{PK}", "d", "{SK}")}, TTL{}, nil, ""},
		"cell in a moving column":   {families("d"), []Rule{cell(nil, "{PK}", "d", "{SK}#{t}")}, TTL{}, []string{"injective"}, "an item's column must depend"},
		"star beside cells": {families("d"), []Rule{cell(when{"SK^C#"}, "{PK}", "d", "{SK}"), rule(when{"SK=M"}, "{PK}", star...)}, TTL{},
			[]string{"shared"}, `"*" writes columns with any name to family d, and rule 1 of the same row writes there too|a family that no other rule`},
		"columns beside cells": {families("d"), []Rule{cell(when{"SK^C#"}, "{PK}", "d", "{SK}"), rule(when{"SK=M"}, "{PK}", column("a", "d:a", 0))}, TTL{}, nil, ""},
		"a column that a cell can be": {families("d"), []Rule{cell(when{"SK^C#"}, "{PK}", "d", "{SK}"), rule(when{"SK=M"}, "{PK}", column("a", "d:C#1", 0))}, TTL{},
			[]string{"shared"}, "column d:C#1 can also be the cell of rule 1"},
		"a whole row key and any other": {families("d"), []Rule{rule(when{"PK=CONFIG", "SK=GLOBAL"}, "CONFIG", star...), rule(when{"SK=META"}, "{PK}", star...)}, TTL{},
			[]string{"shared"}, `"*" writes columns with any name`},
		"a whole row key that no other begins like": {families("d"), []Rule{rule(when{"PK=CONFIG", "SK=GLOBAL"}, "CONFIG", star...), rule(when{"SK=META"}, "x#{PK}", star...)}, TTL{}, nil, ""},
		"two kinds of cells, apart":                 {families("d"), []Rule{cell(when{"SK^C#"}, "{PK}", "d", "{SK}"), cell(when{"SK^L#"}, "{PK}", "d", "{SK}")}, TTL{}, nil, ""},
		"two kinds of cells that meet": {families("d"), []Rule{cell(when{"SK^C#"}, "{PK}", "d", "{SK | after('C#')}"), cell(when{"SK^L#"}, "{PK}", "d", "{SK | after('L#')}")}, TTL{},
			[]string{"shared"}, "can be the same as one of rule"},
		"as columns beside cells": {families("d", "e"), []Rule{cell(when{"SK^C#"}, "{PK}", "d", "{SK}"), rule(when{"SK=M"}, "{PK}", column("a", "d", AsColumns))}, TTL{},
			[]string{"shared"}, "as: columns writes columns with any name"},
		"named columns of two rules": {families("d"), []Rule{rule(when{"SK=A"}, "{PK}", column("a", "d:a", 0)), rule(when{"SK=B"}, "{PK}", column("b", "d:b", 0))}, TTL{}, nil, ""},
		"the same column of two rules": {families("d"), []Rule{rule(when{"SK=A"}, "{PK}", column("a", "d:a", 0)), rule(when{"SK=B"}, "{PK}", column("b", "d:a", 0))}, TTL{},
			[]string{"shared"}, "column d:a is also written by rule 1 of the same row"},
		"rows apart by a literal":   {families("d"), []Rule{rule(when{"SK=A"}, "a#{PK}", star...), rule(when{"SK=B"}, "b#{PK}", star...)}, TTL{}, nil, ""},
		"rows apart by a condition": {families("d"), []Rule{rule(when{"PK^A"}, "{PK}#{SK}", star...), rule(when{"PK^B"}, "{PK}#{SK | hex}", star...)}, TTL{}, nil, ""},
		"undeclared":                {families("d"), []Rule{rule(nil, "{PK}#{SK}", column("*", "e", 0))}, TTL{}, []string{"undeclared"}, `family "e" is not declared|e: maxversions=1`},
		"undeclared counter":        {families("d"), []Rule{rule(nil, "{PK}#{SK}", column("n", "e:n", AsCounter))}, TTL{}, []string{"undeclared"}, "e: never:intsum"},
		"counter in no aggregate":   {families("d"), []Rule{rule(nil, "{PK}#{SK}", column("n", "d:n", AsCounter))}, TTL{}, []string{"counter"}, "which is not an aggregate"},
		"counter in a sketch":       {families("d=never:inthll"), []Rule{rule(nil, "{PK}#{SK}", column("n", "d:n", AsCounter))}, TTL{}, []string{"counter"}, "counts distinct values"},
		"counter beside an age":     {families("d=maxversions=1 || maxage=2d"), []Rule{rule(nil, "{PK}#{SK}", column("n", "d:n", AsCounter))}, TTL{}, []string{"counter"}, "which is not an aggregate|or write d: never:intsum"},
		"counter beside versions":   {families("d=maxversions=2"), []Rule{rule(nil, "{PK}#{SK}", column("n", "d:n", AsCounter))}, TTL{}, []string{"counter"}, "or write d: maxversions=2:intsum"},
		"counter that ages":         {families("d=maxage=30d:intmax"), []Rule{rule(nil, "{PK}#{SK}", column("n", "d:n", AsCounter))}, TTL{}, []string{"counter"}, "which has an age rule|collects it immediately|write d: never:intmax"},
		"counter that ages, nested": {families("d=maxversions=1 || (maxversions=2 && maxage=1d):intsum"), []Rule{rule(nil, "{PK}#{SK}", column("n", "d:n", AsCounter))}, TTL{}, []string{"counter"}, "which has an age rule"},
		"counter of versions":       {families("d=maxversions=1:intsum"), []Rule{rule(nil, "{PK}#{SK}", column("n", "d:n", AsCounter))}, TTL{}, nil, ""},
		"text in an aggregate":      {families("d=never:intsum"), []Rule{rule(nil, "{PK}#{SK}", star...)}, TTL{}, []string{"counter"}, "takes counters only"},
		"cell in an aggregate":      {families("d=never:intmax"), []Rule{cell(nil, "{PK}", "d", "{SK}")}, TTL{}, []string{"counter"}, "takes counters only"},
		"shadowed":                  {families("d"), []Rule{rule(nil, "{PK}#{SK}", star...), rule(when{"PK^A"}, "{PK}#{SK}", star...)}, TTL{}, []string{"unreachable"}, "rule 2 never applies: rule 1 matches"},
		"the same condition twice":  {families("d"), []Rule{rule(when{"PK^A"}, "{PK}#{SK}", star...), rule(when{"PK^A"}, "{PK}#{SK}", star...)}, TTL{}, []string{"unreachable"}, "never applies"},
		"expiry without an age":     {families("d"), nil, TTL{"ttl", ExpireByGC}, []string{"expiry"}, "has none|maxversions=1 || maxage=30d"},
		"expiry with both":          {families("d=maxversions=1 && maxage=1d"), nil, TTL{"ttl", ExpireByGC}, []string{"expiry"}, "has none"},
		"expiry":                    {families("d=maxversions=1 || maxage=18250d"), nil, TTL{"ttl", ExpireByGC}, nil, ""},
		"expiry beyond 1970":        {families("d=maxversions=1 || maxage=18251d"), nil, TTL{"ttl", ExpireByGC}, []string{"expiry"}, "age of family d is 18251d|before 1970|maxversions=1 || maxage=30d"},
		"capture that is none":      {families("d"), []Rule{rule(nil, "{$year}#{PK}#{SK}", star...)}, TTL{}, []string{"template"}, "{$year} is not a part of the source table's name"},
		"a column of two families":  {families("d", "e"), []Rule{rule(nil, "{PK}#{SK}", column("a", "d:x", 0), column("b", "e:x", 0))}, TTL{}, nil, ""},
		"renamed to one column":     {families("d"), []Rule{rule(nil, "{PK}#{SK}", column("a", "d:x", 0), column("b", "d:x", 0))}, TTL{}, []string{"bad"}, "have the same column"},
		"ignore and write":          {families("d"), []Rule{{Ignore: true, Writes: []Write{{}}}}, TTL{}, []string{"bad"}, "either writes its items or ignores"},
		"star to one column":        {families("d"), []Rule{rule(nil, "{PK}#{SK}", column("*", "d:x", 0))}, TTL{}, []string{"bad"}, "needs a family"},
	} {
		spec := Spec{Source: "T", Table: "t", PrimaryKey: compositeKey, Families: c.families, Rules: c.rules, TTL: c.ttl}
		found := Check(spec)
		names := map[Problem]string{BadRule: "bad", BadTemplate: "template", UndeclaredFamily: "undeclared", CounterFamily: "counter", SharedFamily: "shared",
			NotInjective: "injective", Unreachable: "unreachable", NoExpiry: "expiry", Moves: "moves"}
		var got []string
		for _, f := range found {
			word := names[f.Problem]
			if f.Warning {
				word = "w " + word
			}
			got = append(got, word)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v\n%s", name, got, c.want, describeFindings(found))
			continue
		}
		if len(found) > 0 {
			all := found[0].What + "|" + found[0].Cause + "|" + found[0].Fix
			for part := range strings.SplitSeq(c.text, "|") {
				if part != "" && !strings.Contains(all, strings.TrimSpace(part)) {
					t.Errorf("%s: %q is not in %s", name, part, all)
				}
			}
		}
		_, err := New(spec)
		if failed := slices.ContainsFunc(found, func(f Finding) bool { return !f.Warning }); failed != (err != nil) || failed && !errors.Is(err, ErrMapping) {
			t.Errorf("%s: New: %v", name, err)
		}
	}
}

// The complete example has only warnings: the tenant is not part of the primary key.
func TestCheckOfTheCompleteExample(t *testing.T) {
	if got, want := describeFindings(Check(videoSpec())), `warning 0/0 row_key tenantId: the row key uses "tenantId", which is not part of the primary key
warning 1/0 row_key tenantId: the row key uses "tenantId", which is not part of the primary key`; got != want {
		t.Error(got)
	}
	if got := describeFindings(Check(billingSpec())); got != "" {
		t.Error(got)
	}
	for _, spec := range []Spec{videoSpec(), billingSpec()} {
		spec.PrimaryKey = nil // offline
		if got := describeFindings(Check(spec)); got != "" {
			t.Error(got)
		}
	}
}

func TestCheckMerged(t *testing.T) {
	spec := func(source, month, rowKey string) Spec {
		return Spec{Source: source, Table: "t", PrimaryKey: compositeKey[:1], Families: families("d"), Captures: map[string]string{"month": month},
			Rules: []Rule{{Writes: []Write{{RowKey: template(rowKey)}}}}, Merged: true}
	}
	if found := CheckMerged([]Spec{spec("K_01", "01", "{$month}#{PK}"), spec("K_02", "02", "{$month}#{PK}")}); len(found) != 0 {
		t.Error(found)
	}
	found := CheckMerged([]Spec{spec("K_01", "01", "{$month}#{PK}"), spec("K_02", "02", "{PK}")})
	if len(found[1]) != 1 || found[1][0].Problem != KeyCollision || found[1][0].What != "tables K_01 and K_02 can produce the same row of t" {
		t.Error(found)
	}
	if _, err := New(spec("K_01", "01", "{$month}#{PK}")); err != nil {
		t.Error(err)
	}
}

// A default row key begins with an attribute's value, so no literal in another table's row keys
// keeps the two apart.
func TestCheckMergedWithDefaultRowKeys(t *testing.T) {
	spec := func(source string, rowKeys ...string) Spec {
		s := Spec{Source: source, Table: "t", Families: families("d"), Merged: true}
		for _, text := range rowKeys {
			w := Write{Columns: []ColumnRule{{Attribute: "*", To: "d"}}}
			if text != "" {
				w.RowKey = template(text)
			}
			s.Rules = append(s.Rules, Rule{Writes: []Write{w}})
		}
		return s
	}
	const alone = "; the default row key of Alpha begins with"
	for _, c := range []struct {
		alpha, beta []string // row keys of rules; "" is the default
		cause       string   // part of it; "-" for no finding
	}{
		{nil, []string{"b#{id}"}, alone}, // Alpha's item ("b", "1") and Beta's item 1 share a row
		{[]string{""}, []string{"b#{id}"}, alone},
		{[]string{"a#{id}"}, []string{"b#{id}", ""}, "; the default row key of Beta begins with"},
		{nil, nil, "; the default row key of Alpha and of Beta begins with"},
		{nil, []string{"CONFIG"}, alone},
		{[]string{"a#{id}"}, []string{"{id}"}, "delete each other"},
		{[]string{"a#{id}"}, []string{"b#{id}"}, "-"},
	} {
		for i, specs := range [][]Spec{{spec("Alpha", c.alpha...), spec("Beta", c.beta...)}, {spec("Beta", c.beta...), spec("Alpha", c.alpha...)}} {
			found := CheckMerged(specs)[1]
			switch {
			case c.cause == "-" && len(found) > 0, c.cause != "-" && (len(found) != 1 || found[0].Problem != KeyCollision):
				t.Errorf("%q and %q, %d: %+v", c.alpha, c.beta, i, found)
			case c.cause != "-" && i == 0 && !strings.Contains(found[0].Cause, c.cause):
				t.Errorf("%q and %q: %s", c.alpha, c.beta, found[0].Cause)
			}
		}
	}
	// With the key schemas, the default row key is known, and conditions say something about it.
	alpha, beta := spec("Alpha", ""), spec("Beta", "b#{id}")
	alpha.PrimaryKey = compositeKey
	if found := CheckMerged([]Spec{alpha, beta}); len(found[1]) != 1 || strings.Contains(found[1][0].Cause, "default") {
		t.Error(found)
	}
	alpha.Rules[0].When = when{"PK^a"}
	if found := CheckMerged([]Spec{alpha, beta}); len(found) != 0 {
		t.Error(found)
	}
}

// A member of a map or set may have the name of another attribute's column, regardless of the order
// of the rules.
func TestTwoValuesOfOneColumn(t *testing.T) {
	columns := []ColumnRule{{Attribute: "*", To: "d"}, {Attribute: "tags", To: "d", As: AsColumns}, {Attribute: "title", To: "d:name"}}
	for range columns {
		columns = append(columns[1:], columns[0])
		m, err := New(Spec{Source: "T", Table: "t", PrimaryKey: compositeKey[:1], Families: families("d"), Rules: []Rule{{Writes: []Write{{Columns: columns}}}}})
		if err != nil {
			t.Fatal(err)
		}
		for _, member := range []string{"name", "color"} {
			image := item("PK", attribute.String("p"), "title", attribute.Null(), "color", attribute.Null(), "tags", attribute.StringSet([]string{member}))
			if _, err := m.Cells(image, 1000); err == nil || !strings.Contains(err.Error(), "two values take the same column") {
				t.Errorf("%s is a member and an attribute's column, and the last rule is of %s: %v", member, columns[2].Attribute, err)
			}
		}
	}
}

// Members and elements become columns of the family that their rule names. Columns of other
// families never collide with them.
func TestColumnsOfSetsMapsAndLists(t *testing.T) {
	m, err := New(Spec{Source: "T", Table: "t", PrimaryKey: compositeKey[:1], Families: families("d", "tags"), Rules: []Rule{{Writes: []Write{{Columns: []ColumnRule{
		{Attribute: "*", To: "d"}, {Attribute: "tags", To: "tags", As: AsColumns, Value: "\x00"}, {Attribute: "m", To: "d", As: AsColumns}, {Attribute: "l", To: "d:list", As: AsColumns},
		{Attribute: "s", To: "d:set", As: AsColumns}, {Attribute: "whole", To: "tags:", As: AsColumns}}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	image := func(more ...any) attribute.Item { return item(append([]any{"PK", attribute.String("p")}, more...)...) }
	show := func(i attribute.Item) string {
		cells, err := m.Cells(i, 1000)
		if err != nil {
			return err.Error()
		}
		var words []string
		for _, c := range cells {
			words = append(words, fmt.Sprintf("%s:%s=%q", c.Family, c.Qualifier, c.Value))
		}
		return strings.Join(words, " ")
	}
	nested := attribute.Map([]attribute.Attribute{{Name: "a.b", Value: attribute.String("x")}, {Name: "c", Value: attribute.Map([]attribute.Attribute{{Name: "d%", Value: attribute.Bool(true)}})}, {Name: "e", Value: attribute.List(nil)}})
	for want, i := range map[string]attribute.Item{
		`d:PK="p" tags:x="\x00" tags:y="\x00"`:                                                    image("tags", attribute.StringSet([]string{"y", "x"})),
		`d:PK="p" tags:x="\x00" tags:y="\x00" d:x="null"`:                                         image("tags", attribute.StringSet([]string{"y", "x"}), "x", attribute.Null()), // in two families
		`d:PK="p" d:m.a%2Eb="x" d:m.c.d%25="true" d:m.e="[]"`:                                     image("m", nested),
		`d:PK="p" d:list.000000="1" d:list.000001="{\"a.b\":\"x\",\"c\":{\"d%\":true},\"e\":[]}"`: image("l", attribute.List([]attribute.Value{number("1"), nested})),
		`d:PK="p" tags:a%2Eb="x" tags:c.d%25="true" tags:e="[]"`:                                  image("whole", nested),
		`d:PK="p" d:set.1="" d:set.2=""`:                                                          image("s", mustSet("2", "1")),
		"cannot be mapped: attribute \"m\" is S; as: columns takes M, L or a set":                 image("m", attribute.String("x")),
		"cannot be mapped: two values take the same column of family d":                           image("m", attribute.Map([]attribute.Attribute{{Name: "x", Value: attribute.Null()}}), "m.x", attribute.Null()),
	} {
		if got := show(i); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

func mustSet(members ...string) attribute.Value {
	v, err := attribute.NumberSet(members)
	if err != nil {
		panic(err)
	}
	return v
}

// A renamed column and an attribute of that name: neither hides the other.
func TestRenamedColumnsDoNotHideOthers(t *testing.T) {
	m, err := New(Spec{Source: "T", Table: "t", PrimaryKey: compositeKey[:1], Families: families("d"), Drop: []string{"gone"},
		Rules: []Rule{{Writes: []Write{{Columns: []ColumnRule{{Attribute: "*", To: "d"}, {Attribute: "a", To: "d:b"}}}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Cells(item("PK", attribute.String("p"), "a", attribute.Null(), "b", attribute.Null()), 0); err == nil {
		t.Error("two attributes in one column")
	}
	cells, err := m.Cells(item("PK", attribute.String("p"), "a", attribute.String("x"), "gone", attribute.Null()), 0)
	if err != nil || len(cells) != 2 || cells[1].Qualifier != "b" || string(cells[1].Value) != "x" {
		t.Error(cells, err)
	}
}

// The tables of a pattern may share a target if every row key contains the table's parts.
func TestTablesOfAPattern(t *testing.T) {
	key := func(text string) *Template {
		parsed, err := ParseTemplate(text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for _, test := range []struct {
		rows []string // one rule each; all but the last have unknown conditions
		want string   // part of the finding; "" for none
	}{
		{[]string{"{$name}#{$year}{$month}#{id}"}, ""},
		{[]string{"{$year}{$month}{$name}#{id}"}, ""},
		{[]string{"{id}#{$name}#{$year}{$month}"}, ""},
		{[]string{"{$year}{$month}#{id}#{$name}"}, ""},
		{[]string{"{$name}#{$year}#{id}"}, `write row_key: "{$name}#{$month}#{$year}#{id}"`},
		{[]string{"{$year}#{$name}#{id}"}, `write row_key: "{$year}{$month}#{$name}#{id}"`},
		{[]string{"{id}"}, `write row_key: "{$name}#{$year}{$month}#{id}"`},
		{[]string{"{$name | raw}#{$year}{$month}#{id}"}, "is ambiguous"},
		{[]string{"{$name}{$year}{$month}#{id}"}, "is ambiguous"},
		{[]string{"{$name | hash(4)}#{$year}{$month}#{id}"}, "hash makes different values"},
		{[]string{"{id | raw}#{$name}#{$year}{$month}"}, "is ambiguous"},
		// Rules whose rows could collide contain the parts in the same way.
		{[]string{"{$name}#{$year}{$month}#{a}", "{$name}#{$year}{$month}#{b}"}, ""},
		{[]string{"{$name}#{$year}{$month}#{a}", "{$name}#{$year}{$month}x{b}"}, ""},
		{[]string{"a#{$name}#{$year}{$month}", "b#{$month}#{$year}#{$name}"}, ""},
		{[]string{"{$name}#{$year}{$month}#{a}", "{$year}{$month}{$name}#{b}"}, "one by"},
		{[]string{"{$year}{$month}{$name}", "{$year}{$month}{$name}#{b}"}, "one by"},
		{[]string{"{$year}{$month}{$name}0#{a}", "{$year}{$month}{$name}#{b}"}, "one by"},
		{[]string{"{a}#{$name}#{$year}{$month}", "{b}#{$name}#{$year}{$month}"}, "one by"},
		// A common beginning that does not contain all parts proves nothing.
		{[]string{"{$year}{$year}{$year}#{a}#{$name}#{$month}", "{$year}{$year}{$year}#{$month}#{b}#{$name}"}, "one by"},
		{[]string{"{$name | lower}#{$year}{$month}#{a}#{$name}", "{$name | lower}#{$year}{$month}#{$name}#{b}"}, "one by"},
	} {
		spec := Spec{Source: "T_{name}_{year:4}_{month:2}", Table: "t", Families: families("d"),
			Captures: map[string]string{"name": "x", "year": "2015", "month": "01"}, Varies: []Varying{{"name", 0}, {"year", 4}, {"month", 2}}}
		for i, text := range test.rows {
			r := Rule{Writes: []Write{{RowKey: key(text), Columns: []ColumnRule{{Attribute: "*", To: "d"}}}}}
			if i < len(test.rows)-1 {
				r.When = unknown{}
			}
			spec.Rules = append(spec.Rules, r)
		}
		found := ""
		for _, f := range CheckMerged([]Spec{spec})[0] {
			if f.Problem != KeyCollision {
				t.Errorf("%q: %+v", test.rows, f)
			}
			found += f.What + "; " + f.Cause + "; " + f.Fix
		}
		if (found == "") != (test.want == "") || !strings.Contains(found, test.want) {
			t.Errorf("%q: found %q, want %q", test.rows, found, test.want)
		}
	}
}

// unknown is a condition that implies nothing about its items.
type unknown struct{}

func (unknown) Match(attribute.Item) bool { return true }
func (unknown) Attributes() []string      { return nil }

// Rows with one key in two target tables are different rows: they share nothing and do not collide.
func TestSeveralTargets(t *testing.T) {
	spec := Spec{Source: "Orders", Table: "orders", PrimaryKey: compositeKey, Families: families("d", "ref", "unused"), Rules: []Rule{
		{When: when{"customer=c1"}, Writes: []Write{
			{RowKey: template("{PK}#{SK}"), Columns: []ColumnRule{{Attribute: "*", To: "d"}}},
			{Table: "by_customer", RowKey: template("own#{PK}#{SK}"), Columns: []ColumnRule{{Attribute: "*", To: "d"}}},
			{Table: "by_customer", RowKey: template("count#{PK}#{SK}"), Columns: []ColumnRule{{Attribute: "total", To: "ref:total"}}}}},
		{Writes: []Write{{Table: "drafts", RowKey: template("{PK}#{SK}"), Columns: []ColumnRule{{Attribute: "*", To: "d"}}}}},
	}}
	m, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Tables(); !slices.Equal(got, []string{"orders", "by_customer", "drafts"}) {
		t.Error(got)
	}
	var targets []string
	for _, target := range Targets(spec) {
		for _, f := range target.Families {
			targets = append(targets, target.Table+":"+f.Name)
		}
	}
	if !slices.Equal(targets, []string{"orders:d", "orders:unused", "by_customer:d", "by_customer:ref", "drafts:d"}) {
		t.Error(targets)
	}
	order := item("PK", attribute.String("p"), "SK", attribute.String("s"), "customer", attribute.String("c1"), "total", number("1"))
	draft := item("PK", attribute.String("p"), "SK", attribute.String("s"))
	b := Fold(m, []cdc.Change{{Event: cdc.Modify, Sequence: cdc.SequenceOf(1), Keys: m.Keys(order), Old: order, New: draft}}, stamp)
	var rows []string
	for _, r := range b.Rows {
		rows = append(rows, fmt.Sprintf("%s %s remove %v owns %v of %q", r.Table, r.Row, r.Remove, r.Families, r.Owner))
	}
	if diff := cmp.Diff([]string{"orders p#s remove true owns [d] of \"\"", "by_customer own#p#s remove true owns [d] of \"\"", "by_customer count#p#s remove true owns [ref] of \"\"",
		"drafts p#s remove false owns [d] of \"\""}, rows); diff != "" {
		t.Error(diff)
	}
	other := Spec{Source: "Returns", Table: "returns", Families: families("d"), Merged: true, Rules: []Rule{{Writes: []Write{{Table: "by_customer", RowKey: template("{PK}#{SK}")}}}}}
	if found := CheckMerged([]Spec{spec, other}); len(found[1]) != 1 || found[1][0].What != "tables Orders and Returns can produce the same row of by_customer" {
		t.Error(found)
	}
	other.Rules[0].Writes[0].Table = ""
	if found := CheckMerged([]Spec{spec, other}); len(found) != 0 {
		t.Error(found)
	}
}
