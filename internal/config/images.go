package config

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/pattern"
	"github.com/dynamodb-bigtable/replicator/internal/source"
)

// ofTable is the placeholder for the source table's name in the address from which a load copies.
const ofTable = "{table}"

// images is the pattern of the values that checkImages accepts, for editors.
var images = source.Form()

// destination is the form of an address to which DynamoDB writes exports.
var destination = regexp.MustCompile(`^s3://[a-z0-9A-Z][a-z0-9A-Z._-]*[a-z0-9A-Z](?:/\S*)?$`)

// checkImages checks the source of a table's first load.
func checkImages(s string) *fault {
	plain := strings.ReplaceAll(s, ofTable, "table")
	if strings.ContainsAny(plain, "{}") {
		return &fault{diag.InvalidValue, "", "the only placeholder is " + ofTable + ", the name of the source table", source.Written()}
	}
	if wrong := source.Check(plain); wrong != "" {
		return &fault{diag.InvalidValue, "", wrong, source.Written()}
	}
	return nil
}

// LoadsFrom returns the address from which the table's first load copies items; "" if the load
// scans the table.
func (c *Config) LoadsFrom(t Table) string {
	from := c.written(&t)
	if source.Scans(from) {
		return ""
	}
	return strings.ReplaceAll(from, ofTable, t.From)
}

// checkExports refuses to copy two tables from the same export. An export holds one table.
func (d *decoder) checkExports(c *Config) {
	if d.bad["backfill.from"] || d.bad["tables"] {
		return
	}
	exports, shared := map[string]*Table{}, map[string]bool{}
	for i := range c.Tables {
		t := &c.Tables[i]
		own := t.Path() + ".backfill_from"
		address, key := c.LoadsFrom(*t), "backfill.from"
		if t.BackfillFrom != "" {
			key = own
		}
		if address == "" || d.bad[own] {
			continue
		}
		e := diag.Error{Code: diag.InvalidValue, Pos: d.where[key], Cause: "an export holds one table",
			Fix: "give each table its own backfill_from, or write " + ofTable + " in the address in place of the table's name"}
		switch other := exports[address]; {
		case pattern.Is(t.From) && !strings.Contains(c.written(t), ofTable):
			e.What = fmt.Sprintf("%s: all tables of the pattern %s would be copied from one export", key, t.From)
			e.Fix = "write " + ofTable + " in the address in place of the table's name"
			d.report(e)
		case other != nil && !shared[key]:
			e.What = fmt.Sprintf("%s: tables %s and %s would be copied from one export", key, other.From, t.From)
			d.report(e)
			shared[key] = true
		}
		exports[address] = t
	}
	if c.Backfill.WholeExport && len(exports) == 0 && len(c.Tables) > 0 {
		d.report(diag.Error{Code: diag.InvalidValue, Pos: d.where["backfill.whole_export"], What: "backfill.whole_export is set, but no table is copied from an export",
			Cause: "it applies to the exports of backfill.from and backfill_from", Fix: "name an export there, or remove the key"})
	}
}

// written returns the address from which the table's first load copies, as the file gives it.
func (c *Config) written(t *Table) string {
	if t.BackfillFrom != "" {
		return t.BackfillFrom
	}
	return c.Backfill.From
}
