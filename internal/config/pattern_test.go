package config

import (
	"maps"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/transform"
)

func TestPatternMatch(t *testing.T) {
	const months = "Keyword_Search_Result_{keyword}_{year:4}_{month:2}"
	for _, test := range []struct {
		pattern, name string
		want          map[string]string // nil: no match
	}{
		{months, "Keyword_Search_Result_iPhone_2015_01", map[string]string{"keyword": "iPhone", "year": "2015", "month": "01"}},
		{months, "Keyword_Search_Result_phone_case_2015_01", map[string]string{"keyword": "phone_case", "year": "2015", "month": "01"}},
		{months, "Keyword_Search_Result_2014_12_2015_01", map[string]string{"keyword": "2014_12", "year": "2015", "month": "01"}},
		{months, "Keyword_Search_Result___2015_01", map[string]string{"keyword": "_", "year": "2015", "month": "01"}},
		{months, "Keyword_Search_Result__2015_01", nil},        // no keyword
		{months, "Keyword_Search_Result_iPhone_2015_1", nil},   // one digit
		{months, "Keyword_Search_Result_iPhone_20l5_01", nil},  // a letter
		{months, "Keyword_Search_Result_iPhone_2015_011", nil}, // what follows
		{months, "keyword_Search_Result_iPhone_2015_01", nil},
		{months, "Keyword_Search_Result_", nil},
		{"T_{year:4}", "T_2015", map[string]string{"year": "2015"}},
		{"T_{year:4}", "T_20156", nil},
		{"T_{year:4}", "T_", nil},
		{"{tenant}-orders", "a.b-orders", map[string]string{"tenant": "a.b"}},
		{"{tenant}-orders", "-orders", nil},
		{"{y:4}{m:2}{rest}", "201501x", map[string]string{"y": "2015", "m": "01", "rest": "x"}},
		{"{y:4}{m:2}{rest}", "201501", nil},
		{"a{x}a", "aa", nil},
		{"a{x}a", "aaa", map[string]string{"x": "a"}},
	} {
		p, wrong := parsePattern(test.pattern)
		if wrong != nil {
			t.Fatalf("%s: %+v", test.pattern, wrong)
		}
		got, ok := p.match(test.name)
		if ok != (test.want != nil) || ok && !maps.Equal(got, test.want) {
			t.Errorf("%s matches %s as %v, %v; want %v", test.pattern, test.name, got, ok, test.want)
		}
	}
}

// What a pattern was filled with is what it gives back, whatever the parts hold.
func TestPatternInvertible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var text, name strings.Builder
		want := map[string]string{}
		open := rapid.IntRange(0, 4).Draw(t, "open")
		for i := range rapid.IntRange(1, 4).Draw(t, "parts") {
			literal := rapid.StringMatching(`[a-z_.1-]{0,3}`).Draw(t, "literal")
			key := string(rune('a' + i))
			value := rapid.StringMatching(`[0-9]{1,4}`).Draw(t, "digits")
			capture := key + ":" + string(rune('0'+len(value)))
			if i == open {
				value, capture = rapid.StringMatching(`[a-z0-9_.-]{1,5}`).Draw(t, "text"), key
			}
			want[key] = value
			text.WriteString(literal + "{" + capture + "}")
			name.WriteString(literal + value)
		}
		p, wrong := parsePattern(text.String())
		if wrong != nil {
			t.Fatalf("%s: %+v", text.String(), wrong)
		}
		if got, ok := p.match(name.String()); !ok || !maps.Equal(got, want) {
			t.Fatalf("%s matches %s as %v, %v; want %v", text.String(), name.String(), got, ok, want)
		}
	})
}

const merged = `version: 1
target: { project: p, instance: i }
tables:
  - from: Log_{name}_{year:4}
    to: logs
    discover_every: 10s
    families: { r: maxversions=1 }
    rules:
      - row_key: "{$name}#{$year}#{id}"
        columns: { "*": r }
  - from: Log_{year:4}
    to: years
    families: { r: maxversions=1 }
    rules:
      - row_key: "{$year}{id}"
        columns: { "*": r }
  - from: Log_special_2015
    to: special
  - from: Log_{any}
    to: rest
    families: { r: maxversions=1 }
    rules:
      - row_key: "{$any}#{id}"
        columns: { "*": r }
`

func none(string) (string, bool) { return "", false }

func TestPatternTables(t *testing.T) {
	c, err := Parse("replicator.yaml", []byte(merged), none)
	if err != nil {
		t.Fatal(err)
	}
	if every := c.Tables[0].DiscoverEvery; every != 10*time.Second {
		t.Errorf("discover_every is %s", every)
	}
	if every := c.Tables[1].DiscoverEvery; every != discoverEvery {
		t.Errorf("discover_every is %s by default", every)
	}
	// A name before a pattern, and of patterns the first, however the tables are listed.
	var got []string
	for _, table := range c.Expand([]string{"Other", "Log_x", "Log_b_2016", "Log_special_2015", "Log_2015", "Log_a_b_2015", "Log_b_2016"}) {
		got = append(got, table.From+" to "+table.To)
	}
	want := "Log_a_b_2015 to logs, Log_b_2016 to logs, Log_2015 to years, Log_special_2015 to special, Log_x to rest"
	if text := strings.Join(got, ", "); text != want {
		t.Errorf("got %s\nwant %s", text, want)
	}
	if _, ok := c.Table("Other"); ok {
		t.Error("a table that nothing matches")
	}
	if glob, group := c.Tables[0].Glob(), c.Tables[0].Group(); glob != "Log_*_????" || group != "Log_*" {
		t.Errorf("glob %s, group %s", glob, group)
	}
	key := []transform.KeyAttribute{{Name: "id", Type: attribute.KindS}}
	table, _ := c.Table("Log_a_b_2015")
	m, err := table.Mapping(key)
	if err != nil {
		t.Fatal(err)
	}
	row, err := m.Addresses(attribute.NewItem([]attribute.Attribute{{Name: "id", Value: attribute.String("1")}}))
	if err != nil || len(row) != 1 || row[0].Row != "a_b#2015#1" {
		t.Errorf("%v, %v", row, err)
	}
}

// The hash covers the pattern: tables that come do not change it, another pattern does.
func TestPatternHash(t *testing.T) {
	parse := func(text string) *Config {
		c, err := Parse("replicator.yaml", []byte(text), none)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	hash := func(c *Config, name string) string {
		table, ok := c.Table(name)
		if !ok {
			t.Fatal(name)
		}
		return c.Hash(table)
	}
	c := parse(merged)
	if hash(c, "Log_a_2015") != hash(c, "Log_b_2016") {
		t.Error("tables of one pattern have different hashes")
	}
	if hash(c, "Log_a_2015") != hash(parse(strings.Replace(merged, "discover_every: 10s", "discover_every: 1m", 1)), "Log_a_2015") {
		t.Error("the hash depends on how often tables are looked for")
	}
	if hash(c, "Log_a_2015") == hash(parse(strings.ReplaceAll(merged, "name}", "word}")), "Log_a_2015") {
		t.Error("the hash does not depend on the pattern")
	}
}
