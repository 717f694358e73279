package config

import (
	"fmt"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// Lint returns what is worth knowing about a configuration that loads, without asking either end. All findings are warnings
// at present: what must not run does not load. Their positions are those of the keys concerned.
func Lint(c *Config) diag.List {
	if c.Target.View != "" { // which shows the mapped families alone
		return nil
	}
	return diag.List{{
		Code: diag.TombstonesVisible, Warning: true, Pos: c.Where("tables"),
		What: fmt.Sprintf("readers of the target can see rows of removed items for %s", FormatDuration(c.State.TombstoneAge)),
		Cause: "a removed item leaves a row with the family _cdc_gone alone, so that a late write cannot bring it back; " +
			"live rows carry the family _cdc",
		Fix: fmt.Sprintf("have readers pass a family filter for %q (with cbt: columns=%s:.*), or use the view of target.view", DataFamily, DataFamily),
	}}
}
