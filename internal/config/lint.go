package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Examine returns everything that can be told of a configuration file without asking either end, mistakes and warnings alike, in
// reading order. An error says why the file cannot be read.
func Examine(path string, env Lookup, flags ...Flag) (diag.List, error) {
	content, err := open(path)
	if err != nil {
		return nil, err
	}
	c, found := parse(path, content, env, flags)
	if c == nil {
		return found, nil
	}
	return sorted(slices.Concat(found, Lint(c))), nil
}

// Lint returns what is worth knowing about a configuration that loads, without asking either end. All findings are warnings:
// what must not run does not load. Their positions are those of the keys concerned.
func Lint(c *Config) diag.List {
	var found diag.List
	if c.Source.Region != "" {
		if e := CheckRegion(c.Source.Region, c.Where("source.region")); e != nil {
			found = append(found, e)
		}
	}
	if c.Target.View == "" && len(c.Tables) > 0 { // a view shows the mapped families alone
		families := readerFamilies(c)
		found = append(found, &diag.Error{
			Code: diag.TombstonesVisible, Warning: true, Pos: c.Where("tables"),
			What: fmt.Sprintf("readers of the target can see rows of removed items for %s", FormatDuration(c.State.TombstoneAge)),
			Cause: "a removed item leaves a row with only the family _cdc_gone, so that a late write cannot bring it back; " +
				"live rows have a cell in the family _cdc",
			Fix: fmt.Sprintf("let readers use a family filter for %q (with cbt: columns=%s:.*), or the view of target.view",
				strings.Join(families, "|"), strings.Join(families, ":.*,")),
		})
	}
	for i := range c.Tables {
		found = append(found, c.Tables[i].Warnings(nil)...)
	}
	return append(append(found, warnOfDualWrites(c)...), warnOfCutover(c)...)
}

// Warnings are what is worth knowing of the table's mapping. Without a key schema it is what can be told without; with one, it is also
// which rules make items move.
func (t *Table) Warnings(primaryKey []transform.KeyAttribute) diag.List {
	if t.plain() && !t.merged {
		return nil
	}
	b := t.read(primaryKey)
	if len(b.unread) > 0 {
		return nil // a rule that cannot be read is told as such
	}
	var found diag.List
	for _, f := range transform.Check(b.spec) {
		if f.Warning {
			found = append(found, t.finding(f))
		}
	}
	return found
}

// readerFamilies are the families that readers of the first target should ask for.
func readerFamilies(c *Config) []string {
	if len(c.Tables) == 0 {
		return []string{DataFamily}
	}
	var names []string
	for _, f := range c.Tables[0].TargetFamilies() {
		names = append(names, f.Name)
	}
	return names
}
