package main

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMutantsApply: every mutant's text still occurs exactly once, and what comes of all of them together compiles.
func TestMutantsApply(t *testing.T) {
	all := mutants()
	packages := map[string]bool{}
	for _, m := range all {
		packages["./"+filepath.Dir(m.file)] = true
	}
	dir := t.TempDir()
	for _, m := range all { // one by one, so that every stale one is named
		if _, err := plant("../..", dir, []mutant{m}); err != nil {
			t.Error(err)
		}
	}
	if t.Failed() {
		return
	}
	overlay, err := plant("../..", dir, all)
	if err != nil {
		t.Fatal(err)
	}
	arguments := []string{"build", "-overlay", overlay}
	for name := range packages {
		arguments = append(arguments, name)
	}
	c := exec.Command("go", arguments...)
	c.Dir = "../.."
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

var hazardNumber = regexp.MustCompile(`^H\d\d$`)

func TestTableIsInOrder(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutants() {
		if names[m.name] {
			t.Errorf("two mutants are called %q", m.name)
		}
		names[m.name] = true
		if (m.test == "") != (m.why == "") {
			t.Errorf("mutant %q: found by %q, because %q", m.name, m.test, m.why)
		}
		if strings.Contains(m.name, columns) {
			t.Errorf("mutant %q: the name would break the table", m.name)
		}
		for _, h := range strings.Fields(m.hazards) {
			if !hazardNumber.MatchString(h) {
				t.Errorf("mutant %q: %q is no hazard", m.name, h)
			}
		}
	}
	for _, name := range asked {
		if !names[name] {
			t.Errorf("no mutant is called %q", name)
		}
	}
}

// asked are the bugs that the table must have in any case: those that lose data in the tools of the field.
var asked = []string{
	"last page dropped", "numbers as text", "commit before apply", "unfenced commit", "commit by epoch without the counter", "no tombstone",
	"tombstone collected early", "latest-cell filter in the predicate", "remove that keeps the older tombstone", "no hop",
	"hop from zero for late ancestors", "no generation on a new ARN", "raise without fencing", "no witness", "no covered_to", "skip on trim",
	"not-found = done", "child before its parent", "parent row cleaned too early", "iterator latest on restart", "expired iterator from the start",
	"plain timestamped cells instead of the guard", "delete then put in two requests", "version cell at worker time",
	"fold that keeps only the newest address", "fold that loses a remove", "parked change that blocks the shard", "parked whole instead of put half",
	"lease trusted from the reply", "load without guard", "load before the roots were read", "load version above the stream's",
	"retry of a different request",
}
