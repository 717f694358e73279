package engine

import (
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// H18: a drained table is followed until all tables are drained at the same time. Then nothing
// waits any more.
func TestH18_TablesDrainTogether(t *testing.T) {
	var d Completion
	for _, name := range []string{"", "A", "B"} {
		d.Await(name, new(task.Wakeup))
	}
	for i, step := range []struct {
		name       string
		done, over bool
	}{
		{"A", true, false}, {"", true, false}, {"B", false, false}, {"A", false, false}, {"B", true, false}, {"A", true, true}, {"B", false, true},
	} {
		if over := d.Report(step.name, step.done, nil); over != step.over {
			t.Errorf("step %d: over %v when %q is drained: %v", i, over, step.name, step.done)
		}
	}
}

// H18: only a table's last result counts. A table that turned out to be no longer drained is
// checked again, whatever an older result says later.
func TestH18_WhatWasFoundLastCounts(t *testing.T) {
	var d Completion
	d.Await("A", new(task.Wakeup))
	d.Await("B", new(task.Wakeup))
	holds := false
	report := func(over bool, name string, still func() bool, when string) {
		t.Helper()
		if got := d.Report(name, true, still); got != over {
			t.Errorf("%s: over %v", when, got)
		}
	}
	report(false, "A", func() bool { return true }, "one of two is drained")
	report(false, "A", func() bool { return holds }, "it is looked at again")
	report(false, "B", nil, "the other one is drained, and what was found of the first one last holds no more")
	holds = true
	report(false, "B", nil, "the first one was not looked at since")
	report(true, "A", nil, "both are")
}
