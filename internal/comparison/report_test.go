package comparison

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

var update = flag.Bool("update", false, "write the golden files anew")

// compared is a verify with findings in one table, none in another, and a third that was never
// verified.
const compared = `{"name": "acme-2026", "at": "2026-11-02T10:42:07Z", "tables": [
 {"source": "VideoApp", "target": "video_app", "state": "done", "result": {"clean": true, "begun_at": "2026-11-02T09:42:07Z", "ended_at": "2026-11-02T10:42:07Z", "way": "live", "why": "changes come in",
  "items": 136000000, "rows": 136000000, "compared": 136000000, "blind": ["rows that nobody wrote since"]}},
 {"source": "Billing", "target": "billing", "state": "done", "result": {"begun_at": "2026-11-02T09:42:07Z", "ended_at": "2026-11-02T10:42:07Z", "way": "quiet",
  "items": 1800000, "rows": 1800000, "compared": 1800000, "different": 1, "extra": 1, "kept": 3, "unmapped": 1, "findings": [
   {"kind": "different", "target": "billing", "key_hash": "9f86d081884c7d65", "columns": [{"column": "d:secret", "want_hash": "00", "have_hash": "01"}], "reason": "written <by> another program"},
   {"kind": "extra", "target": "billing", "key_hash": "9f86d081884c7d66", "columns": []}]},
  "repair": {"findings": 2, "repaired": 1, "outcomes": [{"outcome": "repaired", "rows": 1, "text": "repaired"}], "not_reached": 1}},
 {"source": "Sessions", "target": "sessions", "state": "never"}],
 "next_steps": [{"command": "replicator verify --repair --table Billing", "why": "2 rows differ"}]}`

// The page as it is; test/browser shows it in a browser. Without --show-values it has no column
// that is named after an item.
func TestThePageOfAReport(t *testing.T) {
	d := &Document{}
	if err := json.Unmarshal([]byte(compared), d); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := (&Operator{Report: filepath.Join(dir, "verify.jsonl")}).report(d); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "verify.html"))
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/verify.html"
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
	for _, refused := range []string{"secret", "<by>", "<script", "src=", "href=", "ZgotmplZ"} {
		if strings.Contains(string(got), refused) {
			t.Errorf("the page has %s", refused)
		}
	}
}

// A report fails if its lines cannot be written, even if its page can.
func TestTheLinesOfAReportFail(t *testing.T) {
	name := filepath.Join(t.TempDir(), "verify.jsonl")
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := (&Operator{Report: name}).report(&Document{}); !diag.Has(err, diag.Usage) || !strings.Contains(err.Error(), "verify.jsonl") {
		t.Errorf("the lines cannot be written: %v", err)
	}
}
