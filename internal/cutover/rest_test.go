package cutover

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/drain"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

// What follows the proof of a drain is part of the freeze: the comparison, the goodbyes, and the
// fence if it comes first.
func TestTheRestOfATryIsForeseen(t *testing.T) {
	for name, c := range map[string]struct {
		plan   checkpoint.CutoverPlan
		small  int
		rest   time.Duration
		proved time.Duration
	}{
		"large tables":      {checkpoint.CutoverPlan{}, 0, 3 * time.Second, 5 * time.Second},
		"a few small":       {checkpoint.CutoverPlan{}, comparesAtOnce, 3 * time.Second, 5 * time.Second},
		"more than at once": {checkpoint.CutoverPlan{}, comparesAtOnce + 1, 5 * time.Second, 3 * time.Second},
		"very many":         {checkpoint.CutoverPlan{}, 10 * comparesAtOnce, 21 * time.Second, 0},
		"fence first":       {checkpoint.CutoverPlan{FenceFirst: true, FreezeAtMost: 8*time.Second + Fencing}, 0, 3*time.Second + Fencing, 5 * time.Second},
		"longer":            {checkpoint.CutoverPlan{FreezeAtMost: 30 * time.Second}, 0, 3 * time.Second, 27 * time.Second},
	} {
		cut := checkpoint.Cutover{CutoverPlan: c.plan}
		rest := restOf(cut, c.small)
		if got := provedWithin(cut.Foreseeable(), rest); rest != c.rest || got != c.proved {
			t.Errorf("%s: rest %s, want %s; proved within %s, want %s", name, rest, c.rest, got, c.proved)
		}
	}
}

// A shard whose children are listed within freeze_at_most is no moment for a freeze if the switch
// would come later.
func TestTheMomentCountsTheRest(t *testing.T) {
	now := kit.Begin
	sh := kit.DoneShard("a", "", false)
	sh.Label = ""
	for left, may := range map[time.Duration]bool{3 * time.Second: true, 5 * time.Second: true, 6 * time.Second: false, 8 * time.Second: false} {
		sh.DoneAt = now.Add(left - drain.LongestListing(checkpoint.CutoverPlan{}))
		c := checkpoint.Cutover{CutoverPlan: checkpoint.CutoverPlan{Tables: []string{"T"}}}
		why, next := tooLong(c, []readiness.Figures{{Shards: []checkpoint.Shard{sh}}}, 0, now)
		if may != (why == "") || !may && !next.Equal(now.Add(left-5*time.Second)) {
			t.Errorf("%s left: %q, next %v", left, why, next)
		}
	}
}

// The drain is abandoned when the switch cannot follow within the limit. After it, only work is
// left, so a try may be late by the time that this work usually takes. Only the deadline ends a
// rehearsal, and a comparison by workers.
func TestWhenATryIsTooLate(t *testing.T) {
	for name, c := range map[string]struct {
		step   checkpoint.CutoverStep
		change func(c *checkpoint.Cutover)
		after  time.Duration
		late   bool
	}{
		"drain in time":          {checkpoint.CutoverDrain, nil, 7 * time.Second, false},
		"drain":                  {checkpoint.CutoverDrain, nil, 7100 * time.Millisecond, true},
		"drain before the fence": {checkpoint.CutoverDrain, func(c *checkpoint.Cutover) { c.FenceFirst, c.FreezeAtMost = true, 8*time.Second+Fencing }, 7100 * time.Millisecond, true},
		"fence comes first":      {checkpoint.CutoverDrain, func(c *checkpoint.Cutover) { c.FenceFirst, c.FreezeAtMost = true, 8*time.Second+Fencing }, 7 * time.Second, false},
		"no canary":              {checkpoint.CutoverDrain, func(c *checkpoint.Cutover) { c.Uncovered = true }, 32 * time.Second, false},
		"moderately over":        {checkpoint.CutoverVerify, nil, 11 * time.Second, false},
		"verify":                 {checkpoint.CutoverVerify, nil, 11100 * time.Millisecond, true},
		"goodbyes":               {checkpoint.CutoverFence, nil, 11100 * time.Millisecond, true},
		"rehearsal":              {checkpoint.CutoverVerify, func(c *checkpoint.Cutover) { c.FrozenAt = time.Time{} }, time.Hour, false},
		"workers compare":        {checkpoint.CutoverVerify, func(c *checkpoint.Cutover) { c.Finals = map[string]uint32{"T": 3} }, time.Hour, false},
		"switching":              {checkpoint.CutoverSwitching, nil, time.Hour, false},
	} {
		cut := checkpoint.Cutover{Step: c.step, FrozenAt: kit.Begin}
		if c.change != nil {
			c.change(&cut)
		}
		if got := tooLate(cut, 3*time.Second, kit.Begin.Add(c.after)); got != c.late {
			t.Errorf("%s: too late %t, want %t", name, got, c.late)
		}
	}
}

// A comparison that does not end lets the application go in seconds, and not at the deadline. The
// next try switches.
func TestH145_AComparisonThatHangsIsAbandoned(t *testing.T) {
	playScene(t, func(s *scene) {
		n := 0
		s.driver.Verifier = hanging{s, func(ctx context.Context) error {
			if n++; n > 2 { // once a table
				return nil
			}
			return task.Sleep(ctx, time.Hour)
		}}
		got := s.play(brief(2))
		if want := "freeze_writes 1, unfreeze_writes 1, freeze_writes 2, switch 2"; s.hooksOf() != want || len(got.GivenUp) != 1 {
			t.Fatalf("%s (%s) after %s", got.Step, got.Reason, s.hooksOf())
		}
		try := got.GivenUp[0]
		if frozen := try.UnfrozenAt.Sub(try.FrozenAt); frozen > 15*time.Second || !strings.HasPrefix(try.Reason, "the freeze would last longer than 8s (") {
			t.Errorf("frozen for %s: %s", frozen, try.Reason)
		}
	})
}

// hanging is a Verifier whose own comparisons wait first.
type hanging struct {
	*scene
	wait func(ctx context.Context) error
}

func (h hanging) Compare(ctx context.Context, state checkpoint.TableState) (checkpoint.VerifyResult, error) {
	if err := h.wait(ctx); err != nil {
		return checkpoint.VerifyResult{}, err
	}
	return h.scene.Compare(ctx, state)
}
