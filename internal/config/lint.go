package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/awshost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Examine returns all findings about a configuration file, errors and warnings, in reading order.
// It sends no requests to either database. The error is not nil if the file cannot be read.
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

// Lint returns the warnings about a valid configuration, without requests to either database. It
// returns no errors, because Load has already refused invalid configurations. Each warning has the
// position of its key.
func Lint(c *Config) diag.List {
	var found diag.List
	if c.Source.Region != "" {
		if e := awshost.CheckRegion(c.Source.Region, c.Where("source.region")); e != nil {
			found = append(found, e)
		}
	}
	if c.Target.View == "" && len(c.Tables) > 0 { // a view shows only the mapped families
		families := readerFamilies(c)
		found = append(found, &diag.Error{
			Code: diag.TombstonesVisible, Warning: true, Pos: c.Where("tables"),
			What: fmt.Sprintf("readers of the target can see rows of removed items for %s", timespan.Format(c.State.TombstoneAge)),
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

// Warnings returns the warnings about the table's mapping. The warnings about rules that can move
// an item to another row need a key schema. Without a key schema, these warnings are left out.
func (t *Table) Warnings(primaryKey []transform.KeyAttribute) diag.List {
	if t.plain() && !t.merged {
		return nil
	}
	b := t.read(primaryKey)
	if len(b.unread) > 0 {
		return nil // rules that cannot be parsed have their own errors
	}
	var found diag.List
	for _, f := range transform.Check(b.spec) {
		if f.Warning {
			found = append(found, t.finding(f))
		}
	}
	return found
}

// readerFamilies returns the families of the first target that its readers should read.
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
