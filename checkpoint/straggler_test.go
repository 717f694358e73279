package checkpoint_test

import (
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// A stream keeps its records for a day. What was written more than a day before a look, and after the look
// before it, was read by no process: the record says from when to when.
func TestATimeThatWasNotWatchedIsNoted(t *testing.T) {
	const day = 24 * time.Hour
	frozen := cutoverBegan
	for name, c := range map[string]struct {
		looks []time.Duration // after the freeze
		gaps  []time.Duration // from, until
	}{
		"often":          {[]time.Duration{time.Minute, time.Hour, 20 * time.Hour}, nil},
		"after a day":    {[]time.Duration{time.Minute, day + time.Minute}, nil},
		"later":          {[]time.Duration{time.Minute, day + time.Hour, day + 2*time.Hour}, []time.Duration{time.Minute, time.Hour}},
		"the first look": {[]time.Duration{30 * time.Hour}, []time.Duration{0, 6 * time.Hour}},
		"twice":          {[]time.Duration{30 * time.Hour, 60 * time.Hour}, []time.Duration{0, 6 * time.Hour, 30 * time.Hour, 36 * time.Hour}},
	} {
		cut := checkpoint.Cutover{FrozenAt: frozen, Step: checkpoint.CutoverWatching}
		for _, at := range c.looks {
			cut.Watch(frozen.Add(at), day)
		}
		var got []time.Duration
		for _, gap := range cut.Unwatched {
			got = append(got, gap.From.Sub(frozen), gap.Until.Sub(frozen))
			if gap.Why == "" {
				t.Errorf("%s: no reason", name)
			}
		}
		if len(got) != len(c.gaps) || len(cut.Timeline) != len(c.gaps)/2 || !cut.WatchedTo.Equal(frozen.Add(c.looks[len(c.looks)-1])) {
			t.Errorf("%s: not watched %v, want %v; watched to %v", name, got, c.gaps, cut.WatchedTo)
			continue
		}
		for i := range got {
			if got[i] != c.gaps[i] {
				t.Errorf("%s: not watched %v, want %v", name, got, c.gaps)
			}
		}
	}
}

// An operator has reviewed the late writes if he names their number: neither fewer, nor more, which
// may be those of another cutover. What comes later is unanswered again.
func TestLateWritesAreAnswered(t *testing.T) {
	c := checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverDone, Strays: 2}
	for _, n := range []int{0, 1, 3} {
		if err := c.See(n, cutoverBegan); !errors.Is(err, checkpoint.ErrCutover) || c.Unanswered() != 2 || len(c.Timeline) > 0 {
			t.Errorf("%d of 2: %v, %d are unanswered", n, err, c.Unanswered())
		}
	}
	for range 2 {
		if check(t, c.See(2, cutoverBegan)); c.Unanswered() != 0 || len(c.Timeline) != 1 {
			t.Errorf("%d are unanswered, %+v", c.Unanswered(), c.Timeline)
		}
	}
	if c.Stray(checkpoint.CutoverStraggler{Table: "Orders", Key: "k"}); c.Unanswered() != 1 {
		t.Errorf("after one more %d are unanswered", c.Unanswered())
	}
	if c.StraysSeen = 9; c.Unanswered() != 0 {
		t.Errorf("%d are unanswered", c.Unanswered())
	}
}

// A watch lasts from the switch, not from the freeze before it.
func TestAWatchLastsFromTheSwitch(t *testing.T) {
	for after, over := range map[time.Duration]bool{time.Hour - 1: false, time.Hour: true} {
		c := checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverWatching, FrozenAt: cutoverBegan.Add(-time.Hour), SwitchedAt: cutoverBegan, CutoverPlan: checkpoint.CutoverPlan{WatchFor: time.Hour}}
		if err := c.Watched(cutoverBegan.Add(after)); (err == nil) != over || (c.Step == checkpoint.CutoverDone) != over {
			t.Errorf("after %s: %v, step %s", after, err, c.Step)
		}
	}
}

// The application is frozen from the moment in which the freeze began until it writes again, here or
// there; an attempt that is over froze nothing.
func TestWhenAnApplicationIsFrozen(t *testing.T) {
	at := cutoverBegan
	for name, c := range map[string]struct {
		record checkpoint.Cutover
		frozen bool
	}{
		"not yet":    {checkpoint.Cutover{Step: checkpoint.CutoverChecks}, false},
		"asked":      {checkpoint.Cutover{Step: checkpoint.CutoverFreeze, FreezeBegunAt: at}, true},
		"draining":   {checkpoint.Cutover{Step: checkpoint.CutoverDrain, FreezeBegunAt: at, FrozenAt: at}, true},
		"switching":  {checkpoint.Cutover{Step: checkpoint.CutoverSwitching, FreezeBegunAt: at}, true},
		"cancelling": {checkpoint.Cutover{Step: checkpoint.CutoverCancelling, FreezeBegunAt: at}, true},
		"unfrozen":   {checkpoint.Cutover{Step: checkpoint.CutoverCancelling, FreezeBegunAt: at, UnfrozenAt: at}, false},
		"switched":   {checkpoint.Cutover{Step: checkpoint.CutoverWatching, FreezeBegunAt: at, SwitchedAt: at}, false},
		"over":       {checkpoint.Cutover{Step: checkpoint.CutoverCancelled, FreezeBegunAt: at}, false},
	} {
		if since, frozen := c.record.FrozenSince(); frozen != c.frozen || frozen && !since.Equal(at) {
			t.Errorf("%s: frozen %t, since %s", name, frozen, since)
		}
	}
}

// A request that waits for its gates waits on when one of them closes during the checks; another ends.
func TestARequestWaitsAgain(t *testing.T) {
	for _, waits := range []bool{true, false} {
		c := checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverChecks, CutoverPlan: checkpoint.CutoverPlan{WhenReady: waits}}
		if err := c.Await(cutoverBegan, "lag"); (err == nil) != waits || (c.Step == checkpoint.CutoverRequested) != waits {
			t.Errorf("waits %t: %v, %s", waits, err, c.Step)
		}
	}
}

// Canaries that an attempt left are known to the next one.
func TestCanariesOutliveAnAttempt(t *testing.T) {
	c := checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverCancelled, Canaries: true}
	check(t, c.Start(cutoverPlan(), cutoverBegan))
	if !c.Canaries || c.Attempt != 2 {
		t.Errorf("attempt %d, canaries %t", c.Attempt, c.Canaries)
	}
}

// What an operator did has his name; what he did not do has none, and a name is not replaced.
func TestALineIsSigned(t *testing.T) {
	c := checkpoint.Cutover{}
	c.Sign("nobody@nowhere") // there is no line
	check(t, c.Start(cutoverPlan(), cutoverBegan))
	before := c
	c.Sign("alice@ops1")
	c.Sign("bob@ops2")
	if c.Timeline[0].By != "alice@ops1" || before.Timeline[0].By != "" {
		t.Errorf("%+v, before %+v", c.Timeline, before.Timeline)
	}
	c.Note(cutoverBegan, "by itself")
	if by := c.Timeline[1].By; by != "" {
		t.Errorf("signed by %q", by)
	}
}
