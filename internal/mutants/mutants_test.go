package main

import (
	"go/parser"
	"go/token"
	"testing"
)

// TestMutantsApply: every mutant's text still occurs exactly once, and what comes of it is Go.
func TestMutantsApply(t *testing.T) {
	if len(mutants) < 25 {
		t.Errorf("only %d mutants", len(mutants))
	}
	names := map[string]bool{}
	for _, m := range mutants {
		if names[m.name] {
			t.Errorf("two mutants are called %q", m.name)
		}
		names[m.name] = true
		mutated, err := m.apply("../..")
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.file, mutated, 0); err != nil {
			t.Errorf("mutant %q: %v", m.name, err)
		}
	}
}
