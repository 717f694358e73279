package pipeline

import (
	"context"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// While a group of tables is being cut over, no table joins it: it might share a target with them. Once the
// application has moved, a new table is refused with its reason, and the tables that were moved are left
// alone. Other groups go on.
func TestNoTableJoinsAGroupThatIsCutOver(t *testing.T) {
	for step, want := range map[checkpoint.CutoverStep]string{
		"":                          "Logs_3 Other",
		checkpoint.CutoverCancelled: "Logs_3 Other",
		checkpoint.CutoverRequested: "Other",
		checkpoint.CutoverDrain:     "Other",
		checkpoint.CutoverWatching:  "Other, refused Logs_3",
		checkpoint.CutoverDone:      "Other, refused Logs_3",
	} {
		l, err := checkpoint.Open(t.Context(), &checkpointtest.Memory{}, "known", checkpoint.Options{Worker: "w", ID: "l"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = l.UpdateCutover(t.Context(), "logs", func(c *checkpoint.Cutover) error {
			if step != "" {
				c.Attempt, c.Step = 1, step
			}
			c.Group, c.Tables, c.Targets, c.Patterns = "logs", []string{"Logs_1"}, []string{"logs"}, []string{"Logs_{n}"}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		find := unlessCutOver(l, func(context.Context, func(string) bool) (engine.Discovery, error) {
			return engine.Discovery{Tables: []engine.Spec{spec("Logs_1", "logs", "Logs_{n}"), spec("Logs_3", "logs", "Logs_{n}"), spec("Other", "other", "{any}")}}, nil
		})
		found, err := find(t.Context(), func(string) bool { return false })
		var names []string
		for _, s := range found.Tables {
			if s.Mapping.Source != "Logs_1" || step.Active() || step.Switched() {
				names = append(names, s.Mapping.Source)
			}
		}
		got := strings.Join(names, " ")
		for _, r := range found.Refused {
			got += ", refused " + r.Table
		}
		if err != nil || got != want {
			t.Errorf("%q: %s, %v; want %s", step, got, err, want)
		}
	}
}

// spec is a table of a pattern.
func spec(source, target, pattern string) engine.Spec {
	return engine.Spec{Mapping: &transform.Mapping{Source: source, Table: target}, Pattern: pattern}
}
