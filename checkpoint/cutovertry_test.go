package checkpoint_test

import (
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// A try that is abandoned is followed by another attempt of the same request, until its tries are used
// up. What belongs to the request is kept, and what belongs to the try is not.
func TestTriesOfARequest(t *testing.T) {
	c := cutoverAt(t, checkpoint.CutoverDrain, func(p *checkpoint.CutoverPlan) { p.Tries, p.FreezeAtMost = 2, 8*time.Second })
	c.Raised, c.Parked, c.Calls = map[string]uint64{"orders": 7}, map[string][]string{"Orders": {"x"}}, 3
	first := c.Token()
	check(t, c.GiveUp("slow", checkpoint.CureWait, cutoverBegan.Add(9*time.Second)))
	if c.Step != checkpoint.CutoverCancelling || !c.NextTry || c.Limit() != 8*time.Second {
		t.Fatalf("%s, next try %t, limit %s", c.Step, c.NextTry, c.Limit())
	}
	if c.Again(cutoverBegan) == nil {
		t.Fatal("the next try begins while the application is frozen")
	}
	check(t, c.Unfrozen(cutoverBegan.Add(10*time.Second)))
	check(t, c.Again(cutoverBegan.Add(11*time.Second)))
	try := c.GivenUp[0]
	if c.Step != checkpoint.CutoverRequested || c.Attempt != 2 || !c.Approved || c.Raised["orders"] != 7 || c.Parked != nil || c.Calls != 0 || !c.FrozenAt.IsZero() ||
		!try.UnfrozenAt.Equal(cutoverBegan.Add(10*time.Second)) || try.Attempt != 1 || try.Reason != "slow" || !c.AwaitsGates() || c.NextTry || c.Reason != "" {
		t.Fatalf("%+v", c)
	}
	if second := c.Token(); !strings.HasPrefix(first, "1.") || !strings.HasPrefix(second, "2.") {
		t.Errorf("tokens %s and %s", first, second)
	}
	check(t, c.Advance(cutoverBegan))
	check(t, c.Advance(cutoverBegan))
	check(t, c.GiveUp("silent", checkpoint.CureRaise, cutoverBegan))
	if c.NextTry || c.Reason != "try 1: slow; try 2: silent" || c.Step != checkpoint.CutoverCancelling {
		t.Errorf("%s because of %q", c.Step, c.Reason)
	}
	check(t, c.Unfrozen(cutoverBegan))
	check(t, c.Cancelled(cutoverBegan))
}

// A number of the fence that a request in doubt may use is raised again, and one whose drop began.
func TestWhichTryRaisesTheFence(t *testing.T) {
	for i, again := range []struct {
		cure   checkpoint.Cure
		fences map[string]uint64
		raised bool
	}{{checkpoint.CureWait, nil, true}, {checkpoint.CureRaise, nil, false}, {checkpoint.CureWait, map[string]uint64{"orders": 8}, false}} {
		c := cutoverAt(t, checkpoint.CutoverFence, func(p *checkpoint.CutoverPlan) { p.Tries = 2 })
		c.Raised, c.Fences = map[string]uint64{"orders": 7}, again.fences
		check(t, c.GiveUp("why", again.cure, cutoverBegan))
		check(t, c.Unfrozen(cutoverBegan))
		check(t, c.Again(cutoverBegan))
		if (c.Raised != nil) != again.raised || c.Fences != nil {
			t.Errorf("%d: raised %v, fences %v", i, c.Raised, c.Fences)
		}
	}
}

// Before anything is frozen nothing is abandoned, and an operator who cancels while a try is abandoned
// ends the request.
func TestACancelEndsTheTries(t *testing.T) {
	many := func(p *checkpoint.CutoverPlan) { p.Tries = 5 }
	c := cutoverAt(t, checkpoint.CutoverChecks, many)
	check(t, c.GiveUp("why", checkpoint.CureWait, cutoverBegan))
	if c.Step != checkpoint.CutoverCancelled || len(c.GivenUp) > 0 {
		t.Errorf("%s after %v", c.Step, c.GivenUp)
	}
	c = cutoverAt(t, checkpoint.CutoverDrain, many)
	check(t, c.GiveUp("why", checkpoint.CureWait, cutoverBegan))
	check(t, c.Cancel("an operator", cutoverBegan))
	check(t, c.Unfrozen(cutoverBegan))
	if c.Again(cutoverBegan) == nil || c.Reason != "an operator" {
		t.Errorf("%s because of %q", c.Step, c.Reason)
	}
	check(t, c.Cancelled(cutoverBegan))
}

// A request waits for its moment for as long as it may, and says when it is expected.
func TestARequestWaitsForItsMoment(t *testing.T) {
	at := func(d time.Duration) time.Time { return cutoverBegan.Add(d) }
	for _, until := range []time.Time{{}, at(time.Minute)} {
		c := cutoverAt(t, checkpoint.CutoverChecks, func(p *checkpoint.CutoverPlan) { p.MomentWithin, p.MomentUntil = time.Minute, until })
		check(t, c.AwaitMoment(at(0), at(time.Hour), "late children"))
		if c.WaitsTooLong(at(time.Minute)) || !c.MomentAt.Equal(at(time.Hour)) || c.Trouble != "late children" {
			t.Errorf("%+v", c)
		}
		check(t, c.AwaitMoment(at(time.Minute+1), at(time.Hour), "late children"))
		if !c.NoMoment || c.Step != checkpoint.CutoverCancelled {
			t.Errorf("it is at %s", c.Step)
		}
	}
	c := cutoverAt(t, checkpoint.CutoverFreeze)
	check(t, c.MomentPassed(at(0), "a gate"))
	if _, frozen := c.FrozenSince(); frozen || c.Step != checkpoint.CutoverChecks {
		t.Errorf("it is at %s, frozen %t", c.Step, frozen)
	}
	c = cutoverAt(t, checkpoint.CutoverDrain)
	if c.MomentPassed(at(0), "a gate") == nil || c.AwaitMoment(at(0), at(0), "a gate") == nil {
		t.Error("a frozen application waits for its moment")
	}
}

// A complete rehearsal says how long writes would have been frozen: from the drain on.
func TestHowLongARehearsalWouldHaveFrozen(t *testing.T) {
	c := cutoverAt(t, checkpoint.CutoverFence, func(p *checkpoint.CutoverPlan) { p.Rehearse = true })
	if got := c.WouldFreeze(); got != 0 {
		t.Errorf("before its end it says %s", got)
	}
	check(t, c.Advance(cutoverBegan.Add(4*time.Second)))
	if got := c.WouldFreeze(); c.Step != checkpoint.CutoverRehearsed || got != 4*time.Second {
		t.Errorf("at %s it says %s", c.Step, got)
	}
}

// A promise of the application counts if it answered the last call of the hook that was begun,
// before the deadline of the try. It shortens what a freeze may last, and may make the fence before
// the switch unnecessary.
func TestAPromiseOfTheApplication(t *testing.T) {
	for name, c := range map[string]struct {
		outcome string
		began   int // calls that another driver has begun since
		at      time.Duration
		quiet   bool
	}{
		"promised":         {checkpoint.HookQuiet, 0, time.Second, true},
		"only done":        {"done", 0, time.Second, false},
		"a later call":     {checkpoint.HookQuiet, 1, time.Second, false},
		"at the deadline":  {checkpoint.HookQuiet, 0, 3 * time.Minute, false},
		"just before that": {checkpoint.HookQuiet, 0, 3*time.Minute - 1, true},
	} {
		a := cutoverAt(t, checkpoint.CutoverFreeze, func(p *checkpoint.CutoverPlan) {
			p.Tries, p.FreezeWithin, p.FreezeDeadline = 2, time.Minute, 2*time.Minute
			p.FreezeAtMost, p.UnlessQuiet, p.FenceFirst, p.FenceUnlessQuiet = 68*time.Second, time.Minute, true, true
		})
		a.Calls++
		a.Heard(checkpoint.CutoverHook{Name: "freeze_writes", Token: a.Token(), Outcome: c.outcome})
		a.Calls += c.began
		if a.Limit() != 68*time.Second || a.Foreseeable() != 68*time.Second || !a.FencesFirst() {
			t.Errorf("%s, before the answer: limit %s", name, a.Limit())
		}
		check(t, a.Frozen(cutoverBegan.Add(c.at)))
		limit := map[bool]time.Duration{true: 8 * time.Second, false: 68 * time.Second}[c.quiet]
		if a.Quiet != c.quiet || a.Limit() != limit || a.Foreseeable() != limit || a.FencesFirst() == c.quiet {
			t.Errorf("%s: quiet %t, limit %s, fence first %t", name, a.Quiet, a.Limit(), a.FencesFirst())
		}
		check(t, a.GiveUp("slow", checkpoint.CureWait, cutoverBegan))
		check(t, a.Unfrozen(cutoverBegan))
		check(t, a.Again(cutoverBegan))
		if a.Quiet || a.MayBeQuiet != c.quiet || a.Limit() != 68*time.Second || a.Foreseeable() != limit || !a.FencesFirst() {
			t.Errorf("%s, next try: quiet %t, limit %s, foreseeable %s", name, a.Quiet, a.Limit(), a.Foreseeable())
		}
	}
}
