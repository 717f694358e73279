package config

import (
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

const (
	// scan is the value of backfill.from that reads the table itself.
	scan = "scan"
	// ofTable stands for the source table's name in the address of an export.
	ofTable = "{table}"
)

// images is the form of what checkImages takes, as far as editors can tell.
var images = regexp.MustCompile(`^(?:scan|/.*|(?:s3|gs)://[^/]+/.+)$`)

// bucketFolder is the address of a folder in a bucket. The services' own rules for names of buckets
// are narrower; a key may hold any character, and several slashes in a row.
var bucketFolder = regexp.MustCompile(`^(?:s3|gs)://[a-z0-9][a-z0-9._-]{1,221}/.*[^/\s]/*$`)

// checkImages takes scan, or where an export lies.
func checkImages(s string) *fault {
	const fix = "write scan, or the folder of one export: s3://BUCKET/AWSDynamoDB/EXPORT, gs://BUCKET/FOLDER, or an absolute directory"
	plain := strings.ReplaceAll(s, ofTable, "table")
	switch scheme, _, remote := strings.Cut(plain, "://"); {
	case plain == scan:
		return nil
	case strings.ContainsAny(plain, "{}"):
		return &fault{diag.InvalidValue, "", "the only placeholder is " + ofTable + ", the name of the source table", fix}
	case remote && scheme != "s3" && scheme != "gs":
		return &fault{diag.InvalidValue, "", "exports are read from s3://, gs:// and directories, not from " + scheme + "://", fix}
	case remote && (!bucketFolder.MatchString(plain) || slices.Contains([]string{".", ".."}, path.Base(plain))):
		return &fault{diag.InvalidValue, "", "it does not name an export's folder within a bucket", fix}
	case !remote && !filepath.IsAbs(plain):
		return &fault{diag.InvalidValue, "", "it is neither scan nor an address or absolute directory. Workers on several machines read it, so a directory begins with /", fix}
	}
	return nil
}

// Export is where the export lies that the table's first load copies; "" if it scans the table.
func (c *Config) Export(t Table) string {
	from := c.Backfill.From
	if t.BackfillFrom != "" {
		from = t.BackfillFrom
	}
	if from == scan {
		return ""
	}
	return strings.ReplaceAll(from, ofTable, t.From)
}

// checkExports refuses that two tables are copied from one export: it is of one.
func (d *decoder) checkExports(c *Config) {
	if d.bad["backfill.from"] || d.bad["tables"] {
		return
	}
	exports, shared := map[string]*Table{}, map[string]bool{}
	for i := range c.Tables {
		t := &c.Tables[i]
		own := t.Path() + ".backfill_from"
		address, key := c.Export(*t), "backfill.from"
		if t.BackfillFrom != "" {
			key = own
		}
		if address == "" || d.bad[own] {
			continue
		}
		e := diag.Error{Code: diag.InvalidValue, Pos: d.where[key], Cause: "an export holds one table",
			Fix: "give each table its own backfill_from, or write " + ofTable + " where the addresses contain the table's name"}
		switch other := exports[address]; {
		case isPattern(t.From) && !strings.Contains(c.written(t), ofTable):
			e.What = fmt.Sprintf("%s: all tables of the pattern %s would be copied from one export", key, t.From)
			e.Fix = "write " + ofTable + " where the addresses contain the table's name"
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

// written is where the table's first load reads as it stands in the file.
func (c *Config) written(t *Table) string {
	if t.BackfillFrom != "" {
		return t.BackfillFrom
	}
	return c.Backfill.From
}
