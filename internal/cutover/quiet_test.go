package cutover

import (
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// quiet makes the hook that freezes promise that the application's own writes have ended.
func (s *scene) quiet() {
	s.answers(FreezeWrites, func(Call) (string, Outcome) { return "quiet", HookQuiet })
}

// dual is a plan for an application that writes the target too, with a delay of a minute.
func dual(tries int) checkpoint.CutoverPlan {
	p := brief(tries)
	p.UnlessQuiet = time.Minute
	p.FreezeAtMost += p.UnlessQuiet
	return p
}

// promised is what workers know of the application's promise about a table.
func (s *scene) promised(table string) checkpoint.Quiet { return s.Table(table).Halt.Quiet }

// H39: workers are told of a promise for the time of the freeze, in each table, and only if the
// hook gave it.
func TestH39_WorkersLearnAPromise(t *testing.T) {
	for _, quiet := range []bool{true, false} {
		playScene(t, func(s *scene) {
			if quiet {
				s.quiet()
			}
			got := s.play(dual(1))
			if got.Step != checkpoint.CutoverWatching || got.Quiet != quiet {
				t.Fatalf("%s (%s), quiet %t", got.Step, got.Reason, got.Quiet)
			}
			noted := slices.ContainsFunc(got.Timeline, func(e checkpoint.CutoverEvent) bool {
				return e.Text == "the application promised that its own writes to Bigtable have ended"
			})
			for _, table := range got.Tables {
				if at := s.promised(table).At; at.Equal(got.FrozenAt) != quiet || at.IsZero() == quiet || noted != quiet {
					t.Errorf("table %s: promised %s, frozen %s, noted %t", table, at, got.FrozenAt, noted)
				}
			}
		})
	}
}

// A promise counts only as the answer to the last call of the hook, with a known outcome.
func TestOnlyTheLastAnswerPromises(t *testing.T) {
	for name, c := range map[string]struct {
		answers []Outcome
		quiet   bool
	}{
		"at last":        {[]Outcome{HookUnknown, HookQuiet}, true},
		"after a loss":   {[]Outcome{HookUnknown, HookDone}, false},
		"never answered": {[]Outcome{HookUnknown, HookUnknown, HookDone}, false},
	} {
		playScene(t, func(s *scene) {
			n := 0
			s.answers(FreezeWrites, func(Call) (string, Outcome) { n++; return "quiet", c.answers[n-1] })
			got := s.play(dual(1))
			if got.Step != checkpoint.CutoverWatching || got.Quiet != c.quiet || s.promised("Orders").At.IsZero() == c.quiet {
				t.Errorf("%s: %s (%s), quiet %t", name, got.Step, got.Reason, got.Quiet)
			}
		})
	}
}

// A try that waits for the application's writes may freeze it for longer than one that need not
// wait. The promise of an abandoned try does not count for the next one, but the next one may
// expect it.
func TestAPromiseShortensTheFreeze(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Source.Blind = true
		n := 0
		s.answers(FreezeWrites, func(Call) (string, Outcome) {
			n++
			return "", map[bool]Outcome{true: HookQuiet, false: HookDone}[n == 1]
		})
		got := s.play(dual(2))
		if len(got.GivenUp) != 2 || got.Quiet || !got.MayBeQuiet {
			t.Fatalf("%s: %+v", got.Step, got.GivenUp)
		}
		for i, limit := range []time.Duration{8 * time.Second, 68 * time.Second} {
			try := got.GivenUp[i]
			if took := try.UnfrozenAt.Sub(try.FrozenAt); took < limit-restAtLeast || took > limit {
				t.Errorf("try %d froze the application for %s", try.Attempt, took)
			}
		}
		if at := s.promised("Orders").At; !at.Equal(got.GivenUp[0].FrozenAt) {
			t.Errorf("promised %s, frozen %s", at, got.GivenUp[0].FrozenAt)
		}
	})
}

// While the application stays frozen, the promise covers removals by TTL up to a little before the
// present. It never covers later changes. Once a cancel has begun, nothing extends it.
func TestH39_APromiseIsExtendedForRemovalsAlone(t *testing.T) {
	playScene(t, func(s *scene) {
		s.quiet()
		s.Source.Blind = true
		s.start(dual(1))
		var began time.Time
		s.answers(UnfreezeWrites, func(Call) (string, Outcome) {
			if began.IsZero() {
				began = s.Now()
			}
			return "", HookDone
		})
		got := s.drive(func(c checkpoint.Cutover) bool { return c.Step.Over() })
		q := s.promised("Parts")
		if !q.At.Equal(got.FrozenAt) || q.To.Sub(q.At) < 4*time.Second || began.Sub(q.To) < precision {
			t.Errorf("promised %+v, frozen %s, unfrozen from %s on", q, got.FrozenAt, began)
		}
	})
}

// A change after the freeze must not have the second of the promise. So the application stays
// frozen until that second is certainly over, whatever cancels the attempt, and even if the source
// has no time.
func TestAPromiseKeepsTheApplicationFrozenForAMoment(t *testing.T) {
	for name, c := range map[string]struct{ quiet, away bool }{"quiet": {true, false}, "quiet, source away": {true, true}, "not quiet": {false, false}} {
		playScene(t, func(s *scene) {
			s.takes, s.driver.Settings.Pass = 0, 200*time.Millisecond
			if c.quiet {
				s.quiet()
			}
			s.inStep(checkpoint.CutoverDrain, func() {
				if c.away {
					s.Source.Fail = func(string) error { return errAway }
				}
				s.Must(s.Update(func(c *checkpoint.Cutover) error { return c.Cancel("by an operator", s.Now()) }))
			})
			var waited time.Duration
			s.answers(UnfreezeWrites, func(Call) (string, Outcome) {
				waited = s.Now().Sub(s.Cutover().FrozenAt)
				s.Source.Fail = nil
				return "", HookDone
			})
			got := s.play(dual(1))
			if got.Step != checkpoint.CutoverCancelled || c.quiet && (waited < precision || waited > precision+time.Second) || !c.quiet && waited > time.Second {
				t.Errorf("%s: %s (%s), frozen for %s", name, got.Step, got.Reason, waited)
			}
		})
	}
}

// If only the application's own library needs the fence before the switch, a promise makes that
// unnecessary. Then every process says goodbye, and late writes are rejected after the switch.
func TestAPromiseReplacesTheFenceOfTheLibrary(t *testing.T) {
	for name, c := range map[string]struct{ unlessQuiet, quiet, first bool }{
		"quiet": {true, true, false}, "not quiet": {true, false, true}, "configured": {false, true, true},
	} {
		playScene(t, func(s *scene) {
			if c.quiet {
				s.quiet()
			}
			var fenced bool
			s.answers(Switch, func(Call) (string, Outcome) { fenced = !s.Cutover().FencedAt.IsZero(); return "", HookDone })
			p := plan()
			p.FenceFirst, p.FenceUnlessQuiet, p.UnlessQuiet = true, c.unlessQuiet, 35*time.Second
			if got := s.play(p); got.Step != checkpoint.CutoverWatching || fenced != c.first || got.GoneAt.IsZero() {
				t.Errorf("%s: %s (%s), fenced before the switch: %t", name, got.Step, got.Reason, fenced)
			}
		})
	}
}

// The probe of the hook says whether a promise may be expected. It is in the record before the
// freeze, and the moment for a freeze is chosen by it.
func TestTheProbeTellsOfAPromise(t *testing.T) {
	for _, may := range []bool{true, false} {
		playScene(t, func(s *scene) {
			before := s.hook
			s.hook = func(call Call) (string, Outcome) {
				if call.Probe && call.Hook == FreezeWrites && may {
					return "quiet", HookQuiet
				}
				return before(call)
			}
			limit := map[bool]time.Duration{true: 8 * time.Second, false: 68 * time.Second}[may]
			var found checkpoint.Cutover
			s.answers(FreezeWrites, func(Call) (string, Outcome) { found = s.Cutover(); return "", HookDone })
			if got := s.play(dual(1)); got.Step != checkpoint.CutoverWatching || found.MayBeQuiet != may || found.Foreseeable() != limit || found.Limit() != 68*time.Second {
				t.Errorf("may be quiet: %t; %s, foreseeable %s, limit %s", found.MayBeQuiet, got.Step, found.Foreseeable(), found.Limit())
			}
			if got := s.driver.MayBeQuiet(s.Ctx, s.Cutover()); got != may {
				t.Errorf("its probe says %t", got)
			}
		})
	}
}
