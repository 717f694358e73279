package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/pattern"
)

// discoverEvery is the default interval of the search for new tables of a pattern.
const discoverEvery = 5 * time.Minute

// Pattern returns the entry's pattern. For a table that matched a pattern, it returns that pattern.
// It returns "" if the entry names one table.
func (t *Table) Pattern() string {
	if t.pattern == nil {
		return ""
	}
	return t.text
}

// Path returns the entry's path in the configuration, such as tables[0]. It is an argument for
// Config.Where.
func (t *Table) Path() string { return fmt.Sprintf("tables[%d]", t.index) }

// IsPattern reports whether the entry is a pattern, rather than one of the tables that match it.
func (t *Table) IsPattern() bool { return t.pattern != nil && t.captures == nil }

// Glob returns the source table's name, or a pattern in the form of AWS policies, with ? for each
// digit and * for any text.
func (t *Table) Glob() string {
	if t.pattern == nil {
		return t.From
	}
	return t.pattern.Glob()
}

// Group returns the common name of the entry's tables: the pattern up to its first varying part,
// and *.
func (t *Table) Group() string {
	if t.pattern == nil {
		return t.From
	}
	return t.pattern.Collapsed()
}

// table returns the table of the given name, if the entry includes it.
func (t *Table) table(source string) (Table, bool) {
	if t.pattern == nil {
		return *t, t.From == source
	}
	captures, ok := t.pattern.Match(source)
	if !ok || len(source) < 3 || len(source) > 255 || !dynamoDBTable.MatchString(source) {
		return Table{}, false
	}
	found := *t
	found.From, found.captures = source, captures
	return found, true
}

// Table returns the source table of the given name: the entry that names it, or else the first
// pattern that matches it. It returns false if no entry includes the table.
func (c *Config) Table(source string) (Table, bool) {
	for _, named := range []bool{true, false} {
		for i := range c.Tables {
			if t := &c.Tables[i]; t.IsPattern() != named {
				if found, ok := t.table(source); ok {
					return found, true
				}
			}
		}
	}
	return Table{}, false
}

// HasPatterns reports whether an entry of the configuration is a pattern.
func (c *Config) HasPatterns() bool {
	return slices.ContainsFunc(c.Tables, func(t Table) bool { return t.IsPattern() })
}

// Expand returns the list of tables, with each pattern replaced by the source tables that match it,
// ordered by name.
func (c *Config) Expand(sources []string) []Table {
	sorted := slices.Compact(slices.Sorted(slices.Values(sources)))
	var out []Table
	for i := range c.Tables {
		entry := &c.Tables[i]
		if !entry.IsPattern() {
			out = append(out, *entry)
			continue
		}
		for _, source := range sorted {
			if t, ok := c.Table(source); ok && t.index == entry.index {
				out = append(out, t)
			}
		}
	}
	return out
}

// checkPattern parses an entry's pattern, and checks keys that depend on it; false if it is
// refused.
func (d *decoder) checkPattern(t *Table, path string) bool {
	if !pattern.Is(t.From) {
		if pos, given := d.where[path+".discover_every"]; given {
			d.report(diag.Error{Code: diag.InvalidValue, Pos: pos, What: path + ".discover_every: the entry names one table",
				Cause: "only a pattern can match new tables", Fix: "remove the key, or write from: as a pattern, like Orders_{year:4}"})
		}
		return true
	}
	parsed, wrong := pattern.Parse(t.From)
	if wrong != nil {
		d.report(diag.Error{Code: diag.PatternInvalid, Pos: t.place(path+".from", wrong.Offset), What: path + ".from: the pattern cannot be parsed",
			Cause: wrong.Cause, Fix: wrong.Fix})
		d.bad[path] = true
		return false
	}
	t.pattern, t.text, t.merged = parsed, t.From, true
	if t.DiscoverEvery == 0 {
		t.DiscoverEvery = discoverEvery
	}
	return true
}
