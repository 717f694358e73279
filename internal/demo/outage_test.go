package demo

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/verify"
)

// The recovery is narrated step by step, each once. It is over only after a gap, because a table
// that has not noticed the gap yet looks in order.
func TestMendingIsToldStepByStep(t *testing.T) {
	var m mending
	var said []string
	for _, document := range []string{
		`{"state": "done", "load": {"number": 1}}`,
		`{"state": "not_started", "needs_load": true, "lost_from": "2026-11-24T20:00:00Z"}`,
		`{"state": "copying", "needs_load": true, "load": {"number": 2, "parts": {"total": 16}}}`,
		`{"state": "copying", "needs_load": true, "load": {"number": 2, "parts": {"total": 16, "done": 3}}}`,
		`{"state": "sweeping", "needs_load": true, "load": {"number": 2, "items": 40}}`,
		`{"state": "done", "load": {"number": 2, "items": 40, "sweep": {"rows_put": 1, "rows_removed": 7}}}`,
	} {
		var s loadState
		if err := json.Unmarshal([]byte(document), &s); err != nil {
			t.Fatal(err)
		}
		over := m.step(s, func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) })
		if want := len(said) == 4; over != want {
			t.Errorf("over %v after %s", over, document)
		}
	}
	for i, want := range []string{"declare a gap: changes since", "load 2 started automatically: 16 parts", "loaded: 40 items", "swept: removed 7 orphan rows, wrote 1 row again"} {
		if i >= len(said) || !strings.Contains(said[i], want) {
			t.Errorf("not told: %s\n%s", want, strings.Join(said, "\n"))
		}
	}
}

func TestDamageIsCountedByKind(t *testing.T) {
	c := Comparison{Differences: []Difference{{Kind: verify.Missing}, {Kind: verify.Extra}, {Kind: verify.Extra}, {Kind: verify.Different}}}
	if got, want := c.damage(), "4 rows are wrong: 1 missing, 2 of removed items, 1 old"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}
