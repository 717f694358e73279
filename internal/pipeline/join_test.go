package pipeline

import (
	"context"
	"errors"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
)

// After a cutover, only the application writes the target, so no table of a pattern joins.
func TestNoTableJoinsOnceACutoverIsDone(t *testing.T) {
	l, err := checkpoint.Open(t.Context(), &checkpointtest.Memory{}, "known", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.UpdateCutover(t.Context(), func(c *checkpoint.Cutover) error { c.Attempt, c.Step = 1, checkpoint.CutoverDone; return nil })
	if err != nil {
		t.Fatal(err)
	}
	looks := 0
	find := unlessCutOver(l, func(context.Context, func(string) bool) (engine.Discovery, error) {
		looks++
		return engine.Discovery{}, nil
	})
	_, err = find(t.Context(), func(string) bool { return false })
	if !errors.Is(err, checkpoint.ErrCutOver) || looks > 0 {
		t.Errorf("tables are looked for %d times after the cutover: %v", looks, err)
	}
	j := &joining{Common: &engine.Common{Retrier: &engine.Retrier{Events: engine.Events{}.OrSilent()}}, discover: find, joined: &engine.NameSet{Names: map[string]bool{}}}
	// An alarm would stay forever.
	j.Events.Discovered = func(err error) { t.Errorf("a look is told of: %v", err) }
	if err := j.admit(engine.Lifecycle{Drain: t.Context(), Work: t.Context()}); !errors.Is(err, checkpoint.ErrCutOver) {
		t.Errorf("%v", err)
	}
}
