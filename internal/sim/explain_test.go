package sim

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// twiceAfterKill is a bug that shows only after a worker was killed: a row that is present is written again as it is. A run in which it did not show
// early is over then, so that nobody plays a day for each fault that is needed for it.
func twiceAfterKill(s *simulation) {
	s.World.Go("bug", func(ctx context.Context) {
		for task.Sleep(ctx, 10*time.Minute) == nil {
			if s.World.Elapsed() > 3*time.Hour {
				s.fail("none", "no bug has shown")
				return
			}
			if s.World.Injected()["process killed"] == 0 || !s.State().Loaded() {
				continue
			}
			for _, key := range s.Target.Rows(s.Mapping.Table) {
				if v, live := s.Target.Row(s.Mapping.Table, key).Value(sink.LiveFamily, sink.VersionColumn); live && strings.HasPrefix(key, "k") {
					_, _ = s.Target.execute("bug", s.Mapping.Table, key, nil, []write{{kind: setCell, family: sink.LiveFamily, qualifier: sink.VersionColumn, value: v}})
					return
				}
			}
		}
	})
}

// TestExplain: a failing run is made as small as it gets, and its story names what it is about.
func TestExplain(t *testing.T) {
	o := SimOptions{sabotage: twiceAfterKill, Without: []string{"workers gone after ledger writes"}} // which kills without a fault of its own
	seed := uint64(0)
	for ; Simulate(seed, o).Checker() != "I7"; seed++ {
		if seed > 50 {
			t.Fatal("no seed has a worker killed")
		}
	}
	text := Explain(seed, o)
	head, story, found := strings.Cut(text, "What happened to it")
	if !found || len(strings.Split(story, "\n")) > shownLines+5 {
		t.Fatalf("seed %d: the story is missing or too long:\n%s", seed, text)
	}
	for _, needed := range []string{"make sim SEED=", "I7: row \"k", "and 0 bursts"} {
		if !strings.Contains(head, needed) {
			t.Errorf("%q is not in\n%s", needed, head)
		}
	}
	if n := strings.Count(head, " #"); n != 1 {
		t.Errorf("%d faults are left:\n%s", n, head)
	}
	if !strings.Contains(story, "kills worker") || !strings.Contains(story, "VIOLATION I7") {
		t.Errorf("the story is\n%s", story)
	}
}

func TestLeaveOut(t *testing.T) {
	left := strings.Fields("a b c d e f g h i j k")
	leaveOut(slices.Clone(left), func(names []string) bool {
		if slices.Contains(names, "c") || slices.Contains(names, "j") {
			return false
		}
		left = slices.DeleteFunc(left, func(s string) bool { return slices.Contains(names, s) })
		return true
	})
	if strings.Join(left, "") != "cj" {
		t.Errorf("left is %v", left)
	}
}
