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
	const fix = "write scan, or the folder of one export: s3://BUCKET/AWSDynamoDB/EXPORT, gs://BUCKET/FOLDER, or a directory from / on"
	plain := strings.ReplaceAll(s, ofTable, "table")
	switch scheme, _, remote := strings.Cut(plain, "://"); {
	case plain == scan:
		return nil
	case strings.ContainsAny(plain, "{}"):
		return &fault{diag.InvalidValue, "", "of what stands in braces, " + ofTable + " alone is known: the name of the source table", fix}
	case remote && scheme != "s3" && scheme != "gs":
		return &fault{diag.InvalidValue, "", "there are exports in s3://, gs:// and directories, and none in " + scheme + "://", fix}
	case remote && (!bucketFolder.MatchString(plain) || slices.Contains([]string{".", ".."}, path.Base(plain))):
		return &fault{diag.InvalidValue, "", "it does not name the folder of an export within a bucket", fix}
	case !remote && !filepath.IsAbs(plain):
		return &fault{diag.InvalidValue, "", "neither scan nor where an export lies: workers on several machines read it, so that a directory begins with /", fix}
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
		e := diag.Error{Code: diag.InvalidValue, Pos: d.where[key], Cause: "an export is of one table",
			Fix: "give each table a backfill_from of its own, or write " + ofTable + " where their addresses differ by its name"}
		switch other := exports[address]; {
		case isPattern(t.From) && !strings.Contains(c.written(t), ofTable):
			e.What = fmt.Sprintf("%s: all tables of the pattern %s would be copied from one export", key, t.From)
			e.Fix = "write " + ofTable + " where their addresses differ by its name"
			d.report(e)
		case other != nil && !shared[key]:
			e.What = fmt.Sprintf("%s: tables %s and %s would be copied from one export", key, other.From, t.From)
			d.report(e)
			shared[key] = true
		}
		exports[address] = t
	}
	if c.Backfill.WholeExport && len(exports) == 0 && len(c.Tables) > 0 {
		d.report(diag.Error{Code: diag.InvalidValue, Pos: d.where["backfill.whole_export"], What: "backfill.whole_export: no table is copied from an export",
			Cause: "it is about the exports that backfill.from and backfill_from name", Fix: "name them there, or remove the key"})
	}
}

// written is where the table's first load reads as it stands in the file.
func (c *Config) written(t *Table) string {
	if t.BackfillFrom != "" {
		return t.BackfillFrom
	}
	return c.Backfill.From
}
