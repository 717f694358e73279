package preflight

import (
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
)

// A process goes on with the tables and patterns that the application still uses. It idles once each of
// them is cut over, whichever group was the last.
func TestWhatTheApplicationHasLeft(t *testing.T) {
	cfg, err := config.Parse("replicator.yaml", []byte(`version: 1
target: { project: p, instance: i }
tables:
  - from: Orders
  - from: Users
  - from: Logs_{year:4}
    to: logs
    families: { d: maxversions=1 }
    rules: [{ row_key: "{$year}#{id}", columns: { "*": d } }]
`), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	noon := time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)
	of := func(row string, step checkpoint.CutoverStep, after time.Duration, patterns []string, tables ...string) checkpoint.Cutover {
		return checkpoint.Cutover{Row: row, Attempt: 1, Step: step, SwitchedAt: noon.Add(after), CutoverPlan: checkpoint.CutoverPlan{Group: row, Tables: tables, Patterns: patterns}}
	}
	orders, users := of("Orders", checkpoint.CutoverDone, 2*time.Hour, nil, "Orders"), of("Users", checkpoint.CutoverWatching, time.Hour, nil, "Users")
	logs := of("Logs_{year:4}", checkpoint.CutoverDone, 0, []string{"Logs_{year:4}"})
	former := of("", checkpoint.CutoverDone, 0, nil, "Orders", "Users") // of a version without groups
	for name, c := range map[string]struct {
		all  checkpoint.Cutovers
		rest string
		last time.Duration // of the last switch, if all have left
	}{
		"nothing":          {nil, "Orders Users Logs_{year:4}", 0},
		"one":              {checkpoint.Cutovers{orders}, "Users Logs_{year:4}", 0},
		"one is cancelled": {checkpoint.Cutovers{of("Orders", checkpoint.CutoverCancelled, 0, nil, "Orders")}, "Orders Users Logs_{year:4}", 0},
		"the pattern":      {checkpoint.Cutovers{logs}, "Orders Users", 0},
		"all":              {checkpoint.Cutovers{logs, orders, users}, "", 2 * time.Hour},
		"a former version": {checkpoint.Cutovers{former}, "", 0},
	} {
		left := LeftOf(cfg, c.all)
		var rest []string
		for _, entry := range left.Rest(cfg).Tables {
			rest = append(rest, entry.From)
		}
		if got := strings.Join(rest, " "); got != c.rest {
			t.Errorf("%s: %q remain, want %q", name, got, c.rest)
		}
		if last := left.All(); (last != nil) != (c.rest == "") || last != nil && !last.SwitchedAt.Equal(noon.Add(c.last)) {
			t.Errorf("%s: all left: %t", name, last != nil)
		}
	}
}
