package config

import (
	"cmp"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// ModeOf returns how the table's loads write rows: auto, guarded or fast.
func (c *Config) ModeOf(t Table) string { return cmp.Or(t.BackfillMode, c.Backfill.Mode) }

// RefusesFast returns why the table's settings or mapping never allow a fast load; "" if they do.
func (c *Config) RefusesFast(t Table) string {
	switch b := t.read(nil); {
	case len(b.unread) > 0 || len(b.found) > 0:
		return "" // these have their own errors
	case c.Target.Shared:
		return "target.shared: another migration may write the target table"
	case c.Late(t) > 0:
		return "dual_writes: the application writes the target too"
	default:
		return b.spec.NotPlain()
	}
}

// checkModes refuses fast loads of tables whose settings or mapping never allow one. With mode
// auto, such a load is guarded, and plan shows why.
func (d *decoder) checkModes(c *Config) {
	for i := range c.Tables {
		t := &c.Tables[i]
		own, path := t.Path()+".backfill_mode", "backfill.mode"
		if t.BackfillMode != "" {
			path = own
		}
		if why := c.RefusesFast(*t); why != "" && c.ModeOf(*t) == "fast" && !d.bad[own] {
			d.report(diag.Error{Code: diag.InvalidValue, Pos: d.where[path], What: path + ": loads of table " + t.From + " cannot be fast", Cause: why,
				Fix: "write backfill_mode: guarded for this table; mode auto chooses by itself"})
		}
	}
}
