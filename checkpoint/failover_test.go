package checkpoint_test

import (
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// An operator ends an attempt whose ledger may lack its last steps. Its outcome counts as later
// than the freeze, and an unrecorded freeze is lifted.
func TestAnAttemptIsSettled(t *testing.T) {
	step, frozen, now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC), time.Date(2026, 11, 26, 11, 0, 0, 0, time.UTC), time.Date(2026, 11, 26, 13, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		step     checkpoint.CutoverStep
		frozen   time.Time
		switched bool
		want     checkpoint.CutoverStep
		since    time.Time
	}{
		{checkpoint.CutoverChecks, time.Time{}, true, checkpoint.CutoverWatching, step},
		{checkpoint.CutoverChecks, time.Time{}, false, checkpoint.CutoverCancelling, step},
		{checkpoint.CutoverFence, frozen, true, checkpoint.CutoverWatching, frozen},
		{checkpoint.CutoverFence, frozen, false, checkpoint.CutoverCancelling, frozen},
		{checkpoint.CutoverSwitching, frozen, true, checkpoint.CutoverWatching, frozen},
		{checkpoint.CutoverSwitching, frozen, false, checkpoint.CutoverCancelling, frozen},
	} {
		r := checkpoint.Cutover{Attempt: 1, Step: c.step, StepAt: step, FreezeBegunAt: c.frozen, FrozenAt: c.frozen}
		if err := r.Settle(c.switched, "the cluster was lost", now); err != nil || r.Step != c.want || !r.FreezeBegunAt.Equal(c.since) {
			t.Errorf("%s, switched %t: step %s, frozen since %s: %v", c.step, c.switched, r.Step, r.FreezeBegunAt, err)
		}
		if c.switched && (!r.FrozenAt.Equal(c.since) || !r.SwitchedAt.Equal(now)) || !c.switched && r.Reason != "the cluster was lost" {
			t.Errorf("%s, switched %t: %+v", c.step, c.switched, r)
		}
	}
	for _, over := range []checkpoint.CutoverStep{"", checkpoint.CutoverCancelled, checkpoint.CutoverRehearsed, checkpoint.CutoverCancelling, checkpoint.CutoverWatching, checkpoint.CutoverDone} {
		r := checkpoint.Cutover{Attempt: 1, Step: over}
		if err := r.Settle(true, "", now); !errors.Is(err, checkpoint.ErrCutover) || r.Step != over {
			t.Errorf("%q: %v", over, err)
		}
	}
}
