package backfill_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// day is the time that the full exports of these tests show.
var day = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

// chainMapping returns a mapping of Orders, whose rows follow from the key unless rules say
// otherwise.
func chainMapping(t *testing.T, more string) *transform.Mapping {
	t.Helper()
	text := "version: 1\nsource: { region: us-east-1 }\ntarget: { project: p, instance: i }\ntables:\n  - from: Orders\n    families: { d: maxversions=1 }\n" + more
	cfg, err := config.Parse("c.yaml", []byte(text), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	m, err := cfg.Tables[0].Mapping([]transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// H107: windows without old images suffice only if the key alone shows what an item left behind,
// and if no application writes beside the stream. If expired items are kept, no window shows them.
// Exports of another table do not count, even one of the same name.
func TestH107_WindowsThatALoadAccepts(t *testing.T) {
	const moves, keeps = "    rules: [{ row_key: \"{c}#{pk}\", columns: { \"*\": d } }]\n", "    ttl: { attribute: ttl, expire: keep }\n"
	full := func(id string) *exports.Export {
		return &exports.Export{ARN: "arn:1/export/" + id, TableARN: "arn:1", TableID: "id", At: day}
	}
	window := func(view exports.View) *exports.Export {
		return &exports.Export{ARN: "arn:1/export/w", TableARN: "arn:1", TableID: "id", Incremental: true, From: day, At: day.Add(time.Hour), View: view}
	}
	for name, c := range map[string]struct {
		mapping string
		d       backfill.Description
		late    time.Duration
		windows bool
		chain   []*exports.Export
		want    string // the refusal; "" is none
	}{
		"new images":                    {chain: []*exports.Export{window(exports.ViewNew), full("f")}},
		"new images, settled":           {late: time.Minute, chain: []*exports.Export{full("f"), window(exports.ViewNew)}, want: "no old images"},
		"new images, numbered":          {mapping: "dual_writes: { version_attribute: rev }\n", chain: []*exports.Export{full("f"), window(exports.ViewNew)}, want: "no old images"},
		"new images of items that move": {mapping: moves, chain: []*exports.Export{full("f"), window(exports.ViewNew)}, want: "no old images"},
		"both images":                   {mapping: moves, late: time.Minute, chain: []*exports.Export{full("f"), window(exports.ViewNewAndOld)}},
		"kept, full alone":              {mapping: keeps, chain: []*exports.Export{full("f")}},
		"kept, with a window":           {mapping: keeps, chain: []*exports.Export{full("f"), window(exports.ViewNewAndOld)}, want: "expire: keep"},
		"kept, a window alone":          {mapping: keeps, windows: true, chain: []*exports.Export{window(exports.ViewNewAndOld)}, want: "expire: keep"},
		"a window alone":                {windows: true, chain: []*exports.Export{window(exports.ViewNewAndOld)}},
		"a full one for a gap":          {windows: true, chain: []*exports.Export{full("f")}, want: "windows repair a gap"},
		"a window for everything":       {chain: []*exports.Export{window(exports.ViewNewAndOld)}, want: "no full export"},
		"of another table":              {d: backfill.Description{ARN: "arn:2"}, chain: []*exports.Export{full("f")}, want: "it belongs to table"},
		"of a table created anew":       {d: backfill.Description{ID: "new"}, chain: []*exports.Export{full("f")}, want: "to another table of the same name"},
	} {
		steps, err := backfill.Chain(c.chain, c.d, chainMapping(t, c.mapping), c.late, c.windows)
		var refused *exports.Error
		if c.want == "" && (err != nil || len(steps) != len(c.chain)) || c.want != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) || refused.Fix == "") {
			t.Errorf("%s: %d steps, %v", name, len(steps), err)
		}
	}
}
