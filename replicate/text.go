package replicate

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
)

// The names of configuration texts in messages.
const (
	nameOfYAML   = "Config.YAML"
	nameOfTables = "Config.Tables"
)

// read returns the configuration as the engine uses it. Errors are *diag.Error or diag.List.
func (c *Config) read(env environment.Lookup) (*config.Config, error) {
	flags := c.flags()
	if c.File != "" {
		if c.YAML != "" || len(c.Tables) > 0 {
			return nil, &diag.Error{Code: diag.Usage, Pos: diag.Position{File: "Config.File"}, What: "Config.File excludes Config.YAML and Config.Tables",
				Cause: "the file has the tables", Fix: "give the whole configuration in one of them"}
		}
		return config.Load(c.File, env, flags...)
	}
	text, name := c.YAML, nameOfYAML
	if text == "" {
		text, name = "version: 1\n", nameOfTables
	}
	return config.Parse(name, []byte(text+tablesText(c.Tables)), env, flags...)
}

// flags returns the fields that override keys of the text.
func (c *Config) flags() (flags []config.Flag) {
	rows := ""
	if c.Backfill.MaxRowsPerSecond != 0 {
		rows = strconv.Itoa(c.Backfill.MaxRowsPerSecond)
	}
	for _, f := range []config.Flag{
		{Name: "Config.Name", Key: "name", Value: c.Name},
		{Name: "Config.Source.Region", Key: "source.region", Value: c.Source.Region},
		{Name: "Config.Source.ExternalID", Key: "source.external_id", Value: c.Source.ExternalID},
		{Name: "Config.Target.Project", Key: "target.project", Value: c.Target.Project},
		{Name: "Config.Target.Instance", Key: "target.instance", Value: c.Target.Instance},
		{Name: "Config.Target.AppProfile", Key: "target.app_profile", Value: c.Target.AppProfile},
		{Name: "Config.StateTable", Key: "state.table", Value: c.StateTable},
		{Name: "Config.Backfill.From", Key: "backfill.from", Value: c.Backfill.From},
		{Name: "Config.Backfill.Mode", Key: "backfill.mode", Value: c.Backfill.Mode},
		{Name: "Config.Backfill.OnGap", Key: "backfill.on_gap", Value: c.Backfill.OnGap},
		{Name: "Config.Backfill.MaxRowsPerSecond", Key: "backfill.max_rows_per_second", Value: rows},
		{Name: "Config.Listen", Key: "http.listen", Value: c.Listen},
	} {
		if f.Value != "" {
			flags = append(flags, f)
		}
	}
	for _, role := range c.Source.Roles {
		flags = append(flags, config.Flag{Name: "Config.Source.Roles", Key: "source.role_arn", Value: role})
	}
	return flags
}

// tablesText returns the section `tables` of replicator.yaml; "" if there are no tables.
func tablesText(tables []Table) string {
	var b strings.Builder
	for i, t := range tables {
		if i == 0 {
			b.WriteString("\ntables:\n")
		}
		b.WriteString("  - from: " + quote(t.From) + "\n")
		pair(&b, "    to: ", t.To)
		for line := range strings.Lines(strings.TrimRight(t.YAML, "\n")) {
			b.WriteString("    " + line)
		}
		if t.YAML != "" {
			b.WriteByte('\n')
		}
		t.rule(&b)
	}
	return b.String()
}

// rule writes the rule of RowKey, Columns and Cell.
func (t *Table) rule(b *strings.Builder) {
	if t.RowKey == "" && len(t.Columns) == 0 && t.Cell == (Cell{}) {
		return
	}
	b.WriteString("    rules:\n      -\n")
	pair(b, "        row_key: ", t.RowKey)
	for i, c := range t.Columns {
		if i == 0 {
			b.WriteString("        columns:\n")
		}
		// Names are keys, which are not expanded, so a dollar sign needs no escape.
		b.WriteString("          " + quoteKey(c.Attribute) + ":\n")
		pair(b, "            to: ", c.To)
		pair(b, "            as: ", c.As)
	}
	if t.Cell != (Cell{}) {
		b.WriteString("        cell:\n")
		pair(b, "          to: ", t.Cell.To)
		pair(b, "          as: ", t.Cell.As)
	}
}

// pair writes a line with a key and its value; nothing if the value is empty.
func pair(b *strings.Builder, key, value string) {
	if value != "" {
		b.WriteString(key + quote(value) + "\n")
	}
}

// quote returns a value as a YAML string. A dollar sign is doubled, because only texts refer to
// environment variables.
func quote(value string) string { return quoteKey(strings.ReplaceAll(value, "$", "$$")) }

// quoteKey returns a key as a YAML string, which JSON's strings are.
func quoteKey(key string) string {
	text, _ := json.Marshal(key) // a string can always be encoded
	return string(text)
}
