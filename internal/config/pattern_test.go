package config

import (
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/transform"
)

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
