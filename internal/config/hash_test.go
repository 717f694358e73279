package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// spellings are mappings of table Orders. Those on one line have the same meaning, and those on
// different lines do not.
var spellings = [][]string{
	{`{from: Orders}`, `{from: Orders, to: Orders}`, `{from: Orders, families: {d: maxversions=1}}`, `{from: Orders, families: {d: maxversions=1}, rules: [{columns: {"*": d}}]}`,
		`{from: Orders, ttl: {attribute: t, expire: follow_deletes}}`, `{from: Orders, start: now}`, `{from: Orders, owned: true}`, `{from: Orders, families: {d: maxversions=1}, rules: [{name: all, to: Orders}]}`},
	{`{from: Orders, to: others}`},
	{`{from: Orders, families: {e: maxversions=1}}`},
	{`{from: Orders, families: {d: maxversions=2}}`},
	{`{from: Orders, keep_versions: true}`},
	{`{from: Orders, drop_attributes: [a, b]}`, `{from: Orders, drop_attributes: [b, a]}`, `{from: Orders, drop_attributes: [b, a, b]}`},
	{`{from: Orders, drop_attributes: [a]}`},
	{`{from: Orders, drop_attributes: ["a,b"]}`},
	{`{from: Orders, families: {d: maxversions=1 || maxage=30d}}`, `{from: Orders, families: {d: maxversions=1||maxage=720h}}`, `{from: Orders, families: {d: (maxage=30d) or maxversions=1}}`},
	{`{from: Orders, families: {d: maxversions=1 && maxage=30d}}`},
	{`{from: Orders, families: {d: maxversions=1 || maxage=30d}, ttl: {attribute: t, expire: gc}}`},
	{`{from: Orders, families: {d: maxversions=1 || maxage=30d}, ttl: {attribute: u, expire: gc}}`},
	{`{from: Orders, ttl: {attribute: t, expire: keep}}`},
	{`{RULES: [{row_key: "{PK}#{SK}"}]}`, `{RULES: [{row_key: "{ PK }#{SK}"}]}`, `{RULES: [{row_key: "{'PK'}#{SK}"}]}`, `{RULES: [{write: [{row_key: "{PK}#{SK}"}]}]}`},
	{`{RULES: [{row_key: "{{{PK}#{SK}"}]}`},
	{`{RULES: [{row_key: "{PK | salt(16)}#{PK}#{SK}"}]}`, `{RULES: [{row_key: "{PK|salt( 16 )}#{PK}#{SK}"}]}`},
	{`{RULES: [{row_key: "{PK | salt(17)}#{PK}#{SK}"}]}`},
	{`{RULES: [{when: 'a = 1 AND b = 2'}, {ignore: true}]}`, `{RULES: [{name: n, when: '(a  =  1.0) and (b=2)'}, {name: rest, ignore: true}]}`},
	{`{RULES: [{when: 'a = 1 OR b = 2'}, {ignore: true}]}`},
	{`{RULES: [{when: 'a = "1" AND b = 2'}, {ignore: true}]}`},
	{`{RULES: [{when: 'a = 1 AND b = 2'}]}`},
	{`{RULES: [{when: 'a = 1', ignore: true}, {when: 'b = 1', row_key: "b#{PK}#{SK}"}]}`},
	{`{RULES: [{when: 'b = 1', row_key: "b#{PK}#{SK}"}, {when: 'a = 1', ignore: true}]}`},
	// Two rules have one address, and their items can replace each other. One rule is spelled
	// differently.
	{`{RULES: [{when: 'a = 1', row_key: "x#{PK}#{SK}"}, {row_key: "x#{PK}#{SK}"}]}`, `{RULES: [{when: 'a = 1', row_key: "x#{PK}#{SK}"}, {row_key: "x#{ PK }#{SK}"}]}`},
	{`{from: Orders, families: {d: never, e: never}, rules: [{columns: {"*": d, x: {to: "e:y"}}}]}`, `{from: Orders, families: {e: never, d: never}, rules: [{columns: {x: "e:y", "*": d}}]}`},
	{`{from: Orders, families: {d: never, e: never}, rules: [{columns: {"*": d, x: {to: "e:y", as: json}}}]}`},
	{`{from: Orders, families: {d: never, e: never}, rules: [{columns: {"*": d, x: {to: "e:z"}}}]}`},
	{`{from: Orders, families: {d: never, e: never}, rules: [{columns: {"*": e, x: {to: "e:y"}}}]}`},
	{`{RULES: [{row_key: "a", cell: {to: "d:{PK}#{SK}", only: [x, y]}}]}`, `{RULES: [{row_key: "a", cell: {to: "d:{ PK }#{SK}", as: json, only: [y, x]}}]}`},
	{`{RULES: [{row_key: "a", cell: {to: "d:{PK}#{SK}"}}]}`},
	{`{RULES: [{row_key: "b", cell: {to: "d:{PK}#{SK}"}}]}`},
	{`{RULES: [{row_key: "a", cell: {to: "d:{PK}#{SK}", as: dynamodb_json, only: [x, y]}}]}`},
	{`{from: Orders, preset: google-migration-utility}`, `{from: Orders, preset: google-migration-utility, families: {cf1: maxversions=1}}`},
	{`{from: Orders, preset: google-migration-utility-corrected}`},
	{`{RULES: [{write: [{row_key: "a#{PK}#{SK}"}, {row_key: "b#{PK}#{SK}"}]}]}`},
	{`{RULES: [{write: [{row_key: "a#{PK}#{SK}"}, {row_key: "b#{PK}#{SK}", to: others}]}]}`},
}

// The hash covers the whole mapping and nothing else. Mappings with the same meaning have the same
// hash, whatever their spelling, so a restart continues. Mappings with the same hash write the
// same.
func TestHashIsOfTheMeaning(t *testing.T) {
	seen := map[string]string{}
	for _, line := range spellings {
		var hash, written string
		for i, table := range line {
			c := configured(t, table)
			h, w := c.Hash(c.Tables[0]), writes(t, c)
			if i == 0 {
				hash, written = h, w
			}
			if h != hash {
				t.Errorf("%s and %s have two hashes", line[0], table)
			}
			if w != written {
				t.Errorf("%s writes\n%s\n%s writes\n%s", line[0], written, table, w)
			}
		}
		if other, taken := seen[hash]; taken {
			t.Errorf("%s has the hash of %s", line[0], other)
		}
		seen[hash] = line[0]
	}
}

// Rows of a target that several tables share contain their origin. So a table that joins the target
// changes the rows of the first one.
func TestHashOfASharedTarget(t *testing.T) {
	const entry = `{from: Orders, to: shared, families: {d: maxversions=1}, rules: [{row_key: "o#{PK}#{SK}"}]}`
	alone, shared := configured(t, entry), configured(t, entry+"\n  - "+strings.ReplaceAll(strings.ReplaceAll(entry, "Orders", "Others"), "o#", "x#"))
	if shared.Hash(shared.Tables[0]) == alone.Hash(alone.Tables[0]) {
		t.Error("the hash does not cover that the target is shared")
	}
}

// oneHashALine checks that the mappings on a line have the same hash, and those on different lines
// different ones.
func oneHashALine(t *testing.T, lines [][]string, entry func(text string) string) {
	t.Helper()
	seen := map[string]string{}
	for _, line := range lines {
		for i, text := range line {
			c := configured(t, entry(text))
			hash := c.Hash(c.Tables[0])
			switch other, taken := seen[hash]; {
			case i == 0 && taken:
				t.Errorf("%s has the hash of %s", text, other)
			case i > 0 && other != line[0]:
				t.Errorf("%s and %s have two hashes", line[0], text)
			}
			if i == 0 {
				seen[hash] = text
			}
		}
	}
}

// In a condition, these do not matter: quotes, parentheses, spaces, the spelling of a number, and
// the order of members in a set or map. Equal letters with a different meaning stay different.
func TestHashOfConditions(t *testing.T) {
	oneHashALine(t, [][]string{
		{`a = 1`, "`a` = 1", `a=1.0`, `( a = 10e-1 )`},
		{`a = "1"`, `a = '1'`, `a = "\u0031"`},
		{`a = b64"MQ=="`}, {`a = -1`}, {`a = 10`}, {`a = 0.1`}, {`a <> 1`}, {`a < 1`}, {`a <= 1`}, {`a > 1`}, {`a >= 1`}, {`size(a) = 1`},
		{`a = null`}, {`a = "null"`}, {"a = `null`"}, {`a = true`}, {`a = false`}, {`a = "a"`}, {`a = b`},
		{`a.b = 1`, "`a`.`b` = 1"}, {"`a.b` = 1"}, {`a[0] = 1`}, {"`a[0]` = 1"}, {`a[1] = 1`},
		{`a = <<"x", "y">>`, `a = <<'y','x'>>`}, {`a = ["x", "y"]`}, {`a = ["y", "x"]`}, {`a = <<"x, y">>`},
		{`a = <<2, 10>>`, `a = <<10.0, 2>>`}, {`a = {"x": 1, "y": 2}`, `a = {"y": 2.0, "x": 1}`}, {`a = {"x": 2, "y": 1}`},
		{`a = 1 OR b = 1 AND c = 1`, `a = 1 or (b = 1 and c = 1)`}, {`(a = 1 OR b = 1) AND c = 1`},
		{`a = 1 AND b = 1 AND c = 1`, `a = 1 AND (b = 1 AND c = 1)`}, {`a = 1 OR b = 1 OR c = 1`, `a = 1 OR (b = 1 OR c = 1)`},
		{`NOT a = 1 AND b = 1`, `(NOT (a = 1)) AND b = 1`}, {`NOT (a = 1 AND b = 1)`},
		{`a BETWEEN 1 AND 2 AND b = 1`, `(a between 1.0 and 2) and b = 1`}, {`a IN (1, 2)`}, {`a IN (1, "2")`},
		{`attribute_exists(a)`}, {`attribute_not_exists(a)`}, {`begins_with(a, "x")`}, {`contains(a, "x")`}, {`attribute_type(a, "S")`}, {`attribute_type(a, "SS")`},
	}, func(text string) string { return fmt.Sprintf("{RULES: [{when: %q}, {ignore: true}]}", text) })
}

// The same applies to the rules of families, where order, repetitions and extra parentheses do not
// matter, and to row keys and columns.
func TestHashOfFamiliesAndTemplates(t *testing.T) {
	oneHashALine(t, [][]string{
		{"maxversions=1", "maxversions=1 || maxversions=1", "(maxversions=1)"}, {"maxversions=10"}, {"never"},
		{"maxage=1d", "maxage=24h", "maxage=1440m", "maxage=86400s && maxage=1d"}, {"maxage=1h"}, {"maxage=1m"}, {"maxage=1s", "maxage=1000ms"}, {"maxage=1ms"}, {"maxage=25h"},
		{"maxversions=1 || maxage=30d || maxversions=3", "maxversions=3 || (maxage=720h || maxversions=1)", "(maxversions=1 or maxage=30d) or maxversions=3 or maxage=30d"},
		{"maxversions=2 && maxage=1d || maxversions=5", "maxversions=5 || (maxage=24h and maxversions=2)"},
		{"maxversions=2 && (maxage=1d || maxversions=5)"}, {"maxversions=2 || maxage=1d && maxversions=5"},
	}, func(text string) string { return fmt.Sprintf("{from: Orders, families: {d: %q}}", text) })
	const key = "#{PK}#{SK}"
	oneHashALine(t, [][]string{
		{"{a}" + key, "{'a'}" + key, "{ a }" + key}, {"{{a}}" + key}, {"{A}" + key}, {"{'a|lower'}" + key}, {"{a|lower}" + key, "{ 'a' | lower }" + key}, {"{a|upper}" + key},
		{"{a|lower|reverse}" + key}, {"{a|reverse|lower}" + key}, {"{'$a'}" + key}, {"{a|pad(1)}" + key}, {"{a|pad(10)}" + key}, {"{a|newest_first(10)}" + key},
		{"{a|part('#', 1)}" + key, "{a | part( '#',01 )}" + key}, {"{a|part('#', 11)}" + key}, {"{a|part('#1', 1)}" + key}, {"{a|after('#')}" + key}, {"{a|before('#')}" + key},
		{"{a|after('''')}" + key}, {"{a|after('''''')}" + key}, {"{a|date('yyyyMM')}" + key}, {"{a|date('MMyyyy')}" + key}, {"{a|default('')}" + key}, {"{a|default(' ')}" + key},
		{"{PK}#{SK}"}, {"{SK}#{PK}"}, {"{PK}#{SK}#"},
	}, func(text string) string { return fmt.Sprintf("{RULES: [{row_key: %q}]}", text) })
	oneHashALine(t, [][]string{
		{`{x: "d:y"}`, `{x: {to: "d:y"}}`}, {`{"*": d, x: "d:y"}`, `{x: "d:y", "*": d}`}, {`{y: "d:x"}`}, {`{x: "d:z"}`}, {`{x: d}`, `{x: {to: d}}`}, {`{x: "d:y", y: "d:x"}`, `{y: "d:x", x: "d:y"}`},
		{`{x: {to: "d:y", as: json}}`}, {`{x: {to: "d:y", as: columns}}`}, {`{x: {to: "d:y", as: columns, value: "1"}}`}, {`{x: {to: "d:y", as: columns, value: "2"}}`},
	}, func(text string) string { return "{RULES: [{columns: " + text + "}]}" })
}

// configured returns a configuration with the entry of a table. RULES is replaced by default rules.
func configured(t *testing.T, table string) *Config {
	t.Helper()
	table = strings.ReplaceAll(table, "{RULES:", "{from: Orders, families: {d: maxversions=1}, rules:")
	c, err := Parse("f", []byte("version: 1\ntarget: {project: p, instance: i}\ntables:\n  - "+table+"\n"), testEnv)
	if err != nil {
		t.Fatal(table, err)
	}
	return c
}

// writes returns the rows of some items under a mapping, for comparison, or says that the key
// schema does not fit.
func writes(t *testing.T, c *Config) string {
	t.Helper()
	m, err := c.Tables[0].Mapping([]transform.KeyAttribute{{Name: "PK", Type: attribute.KindS}, {Name: "SK", Type: attribute.KindS}})
	if err != nil {
		return "not for this key"
	}
	var b strings.Builder
	for _, text := range []string{`"a":{"N":"1"},"b":{"N":"2"}`, `"b":{"N":"1"},"x":{"L":[]},"y":{"B":"AQ=="}`, `"t":{"N":"4102444800"},"m":{"M":{"k":{"S":"v"}}}`} {
		item, err := attribute.UnmarshalItem([]byte(`{"PK":{"S":"{p"},"SK":{"S":"s#"},` + text + `}`))
		if err != nil {
			t.Fatal(err)
		}
		placed, err := m.Map(item, time.Unix(1, 0))
		fmt.Fprintf(&b, "%+v %v\n", placed.Rows, err)
	}
	return b.String()
}
