package checkpoint_test

import (
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
