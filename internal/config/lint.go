package config

import (
	"fmt"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Lint returns what is worth knowing about a configuration that loads, without asking either end. All findings are warnings
// at present: what must not run does not load. Their positions are those of the keys concerned.
func Lint(c *Config) diag.List {
	if c.Target.View != "" { // which shows the mapped families alone
		return nil
	}
	families := readerFamilies(c)
	found := diag.List{{
		Code: diag.TombstonesVisible, Warning: true, Pos: c.Where("tables"),
		What: fmt.Sprintf("readers of the target can see rows of removed items for %s", FormatDuration(c.State.TombstoneAge)),
		Cause: "a removed item leaves a row with the family _cdc_gone alone, so that a late write cannot bring it back; " +
			"live rows carry the family _cdc",
		Fix: fmt.Sprintf("have readers pass a family filter for %q (with cbt: columns=%s:.*), or use the view of target.view",
			strings.Join(families, "|"), strings.Join(families, ":.*,")),
	}}
	for i := range c.Tables {
		t := &c.Tables[i]
		if t.plain() {
			continue
		}
		spec, _ := t.spec(nil)
		for _, f := range transform.Check(spec) {
			if f.Warning {
				found = append(found, t.finding(f))
			}
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
