package pipeline

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
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

// H18: neither what is trimmed, and is to be declared or read on, nor a copy that goes on is drained, though nobody reads the shard at the moment.
func TestH18_WhatIsToGoOnIsNotDrained(t *testing.T) {
	ctx, at := context.Background(), time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "drained", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	tb := &table{Options: &Options{Ledger: ledger}, Table: Table{Copy: true}, board: newBoard()}
	begun := checkpoint.TableState{Label: "l", Generation: 2, Adopted: 2, Listed: 1, Load: checkpoint.Load{Generation: 2, StartedAt: at}}
	copied, broken := begun, begun
	copied.Load.DoneAt, broken.NeedsLoad = at, true
	done := checkpoint.Shard{Label: "l", ID: "s", State: checkpoint.Done, Generation: 2, DoneAt: at}
	lost := func(loss checkpoint.Loss, generation uint32) checkpoint.Shard {
		return checkpoint.Shard{Label: "l", ID: "s", State: checkpoint.Lost, Loss: loss, Generation: generation, DoneAt: at}
	}
	for _, c := range []struct {
		name  string
		state checkpoint.TableState
		shard checkpoint.Shard
		want  bool
	}{
		{"a copy that is complete", copied, done, true},
		{"a copy that was begun", begun, done, false},
		{"a gap that is declared", broken, lost(checkpoint.NotFound, 1), true},
		{"a gap that is not declared yet", broken, lost(checkpoint.NotFound, 2), false},
		{"what is left of a trimmed shard", broken, lost(checkpoint.Trimmed, 1), false},
	} {
		if got := tb.drained(view{c.state, []checkpoint.Shard{c.shard}}, at.Add(48*time.Hour), 0); got != c.want {
			t.Errorf("%s: drained %v", c.name, got)
		}
	}
}
