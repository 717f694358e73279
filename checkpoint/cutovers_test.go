package checkpoint_test

import (
	"slices"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Two cutovers may cover the same table or the same pattern. The one that moved it counts, else the
// running one, else the later one, in whatever order the records are read.
func TestTheCutoverThatCounts(t *testing.T) {
	for name, c := range map[string]struct {
		counts, other checkpoint.CutoverStep
		attempt       uint32 // of the cutover that counts; the other one has attempt 5
	}{
		"done, and cancelled later":     {checkpoint.CutoverDone, checkpoint.CutoverCancelled, 1},
		"watching, and requested later": {checkpoint.CutoverWatching, checkpoint.CutoverRequested, 1},
		"running, and cancelled later":  {checkpoint.CutoverFreeze, checkpoint.CutoverCancelled, 1},
		"running, and rehearsed later":  {checkpoint.CutoverRequested, checkpoint.CutoverRehearsed, 1},
		"cancelled, the later one":      {checkpoint.CutoverCancelled, checkpoint.CutoverCancelled, 9},
		"rehearsed after a cancel":      {checkpoint.CutoverRehearsed, checkpoint.CutoverCancelled, 9},
		"running, the later one":        {checkpoint.CutoverDrain, checkpoint.CutoverFreeze, 9},
		"done, the later one":           {checkpoint.CutoverDone, checkpoint.CutoverDone, 9},
	} {
		cutover := func(row string, step checkpoint.CutoverStep, attempt uint32) checkpoint.Cutover {
			plan := checkpoint.CutoverPlan{Group: row, Tables: []string{"Orders"}, Patterns: []string{"Shop-*"}}
			return checkpoint.Cutover{Row: row, Attempt: attempt, Step: step, CutoverPlan: plan}
		}
		all := checkpoint.Cutovers{
			cutover("counts", c.counts, c.attempt), cutover("other", c.other, 5),
			{Row: "apart", Attempt: 20, Step: checkpoint.CutoverDone, CutoverPlan: checkpoint.CutoverPlan{Group: "apart", Tables: []string{"Users"}}},
		}
		for range 2 {
			for of, got := range map[string]checkpoint.Cutover{
				"the table":              all.Of("Orders", ""),
				"a table of the pattern": all.Of("Shop-1", "Shop-*"),
				"a group of the table":   all.OfGroup("mine", []string{"Orders"}, nil),
				"a group of the pattern": all.OfGroup("mine", nil, []string{"Shop-*"}),
				"the group by its row":   all.OfGroup("other", []string{"Orders"}, nil),
			} {
				if got.Row != "counts" || got.Attempt != c.attempt {
					t.Errorf("%s, %s: attempt %d of %q", name, of, got.Attempt, got.Row)
				}
			}
			slices.Reverse(all)
		}
	}
}

// A group without a cutover keeps its own row, and a record without an attempt does not count.
func TestAGroupWithoutACutover(t *testing.T) {
	none := checkpoint.Cutovers{{Row: "mine"}, {Row: "apart", Attempt: 3, Step: checkpoint.CutoverDone, CutoverPlan: checkpoint.CutoverPlan{Group: "apart", Tables: []string{"Users"}}}}
	if got := none.OfGroup("mine", []string{"Orders"}, nil); got.Row != "mine" || got.Attempt != 0 {
		t.Errorf("attempt %d of %q", got.Attempt, got.Row)
	}
	if got := none.OfGroup("apart", nil, nil); got.Row != "apart" || got.Attempt != 3 {
		t.Errorf("a group whose tables have all left: attempt %d of %q", got.Attempt, got.Row)
	}
	if got := none.Of("Orders", ""); got.Attempt != 0 {
		t.Errorf("a table without a cutover: attempt %d of %q", got.Attempt, got.Row)
	}
}
