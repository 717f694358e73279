package pipeline

import (
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// H18: what is drained goes on until all tables are drained at the same time, and then nothing waits for anything any more.
func TestH18_TablesDrainTogether(t *testing.T) {
	var d drain
	for _, name := range []string{discovery, "A", "B"} {
		d.await(name, new(task.Bell))
	}
	for i, step := range []struct {
		name       string
		done, over bool
	}{
		{"A", true, false}, {discovery, true, false}, {"B", false, false}, {"A", false, false}, {"B", true, false}, {"A", true, true}, {"B", false, true},
	} {
		if over := d.report(step.name, step.done); over != step.over {
			t.Errorf("step %d: over %v when %q is drained: %v", i, over, step.name, step.done)
		}
	}
}
