package cutover

import (
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

// hooksOf are the hooks that were called, with the attempts of their tokens.
func (s *scene) hooksOf() string {
	var called []string
	for _, call := range s.calls {
		name, token, _ := strings.Cut(call, " ")
		attempt, _, _ := strings.Cut(token, ".")
		called = append(called, name+" "+attempt)
	}
	return strings.Join(called, ", ")
}

// D8: a shard that ends as the application is frozen, without a canary, would keep it frozen until its
// children are listed. The try is abandoned at once, the application writes on, and the next try begins
// once the shard is complete. It is an attempt of the same request with tokens of its own.
func TestH145_AFreezeThatWouldLastIsGivenUp(t *testing.T) {
	playScene(t, func(s *scene) {
		n := 0
		s.answers(FreezeWrites, func(Call) (string, Outcome) {
			if n++; n == 1 {
				s.ends("Parts", "ended")
			}
			return "", HookDone
		})
		p := brief(3)
		p.Expires = s.Now().Add(time.Hour)
		got := s.play(p)
		if want := "freeze_writes 1, unfreeze_writes 1, freeze_writes 2, switch 2"; s.hooksOf() != want || got.Step != checkpoint.CutoverWatching {
			t.Fatalf("%s (%s) after %s, want %s", got.Step, got.Reason, s.hooksOf(), want)
		}
		if len(got.GivenUp) != 1 || got.Attempt != 2 || got.Reason != "" || !got.Approved || !got.Expires.Equal(p.Expires) {
			t.Fatalf("%+v", got.GivenUp)
		}
		first := got.GivenUp[0]
		if !strings.HasPrefix(first.Reason, "table Parts: shard ended ended without a canary, and its children may not be listed before ") || first.Attempt != 1 {
			t.Errorf("abandoned because %s", first.Reason)
		}
		if took := first.UnfrozenAt.Sub(first.FrozenAt); took <= 0 || took > 5*time.Second {
			t.Errorf("the first try froze the application for %s", took)
		}
		if waited := got.FreezeBegunAt.Sub(first.FrozenAt); waited < 2*time.Minute-8*time.Second || waited > 3*time.Minute {
			t.Errorf("the next try began after %s", waited)
		}
		if took := got.FrozenFor(s.Now()); took > 20*time.Second || !s.raisedOnce(got) {
			t.Errorf("the second try froze the application for %s, under the numbers %v", took, got.Raised)
		}
	})
}

// raisedOnce reports whether the fence of each target was raised once since its number was 7.
func (s *scene) raisedOnce(c checkpoint.Cutover) bool {
	families := 0
	for _, target := range c.Targets {
		families += len(s.Target.Families[target])
	}
	return families > 0 && c.RaiseAgain == false && c.Raised["orders"] > 7
}

// D8: tries are used up one after another. The record says why each one was abandoned, and the last
// one cancels the request.
func TestH145_TriesAreUsedUp(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Source.Blind = true
		got := s.play(brief(3))
		if want := "freeze_writes 1, unfreeze_writes 1, freeze_writes 2, unfreeze_writes 2, freeze_writes 3, unfreeze_writes 3"; s.hooksOf() != want || got.Step != checkpoint.CutoverCancelled {
			t.Fatalf("%s after %s, want %s", got.Step, s.hooksOf(), want)
		}
		why := "the freeze would last longer than 8s (table Orders: 2 of 2 canaries are not read yet)"
		if want := "try 1: " + why + "; try 2: " + why + "; try 3: " + why; got.Reason != want || len(got.GivenUp) != 3 || got.NextTry {
			t.Errorf("cancelled because of %q", got.Reason)
		}
		for _, try := range got.GivenUp {
			if took := try.UnfrozenAt.Sub(try.FrozenAt); took < 7*time.Second || took > 8*time.Second {
				t.Errorf("try %d froze the application for %s", try.Attempt, took)
			}
		}
		if left := len(s.Source.Items["Orders"]) + len(s.Source.Items["Parts"]); left > 0 || !s.tablesGoOn() {
			t.Errorf("%d canaries are left", left)
		}
	})
}

// D8: a process that is silent, or whose request has no answer, may still write. The next try raises
// the fence again, so that nothing that it sent counts any more.
func TestH145_SilenceRaisesTheFenceBeforeTheNextTry(t *testing.T) {
	for name, happens := range map[string]func(s *scene, w *writer){
		"silent":   func(_ *scene, w *writer) { w.Kill() },
		"in doubt": func(s *scene, w *writer) { w.answer = errAway; _ = w.write(s); w.answer = nil },
	} {
		playScene(t, func(s *scene) {
			w, n := s.hire("w"), uint64(0)
			s.inStep(checkpoint.CutoverDrain, func() {
				s.Must(w.write(s))
				n = s.Cutover().Raised["orders"]
				happens(s, w)
			})
			got := s.play(brief(2))
			if want := "freeze_writes 1, unfreeze_writes 1, freeze_writes 2, switch 2"; s.hooksOf() != want || got.Raised["orders"] <= n || n == 0 {
				t.Errorf("%s: %s (%s) after %s under %d, before under %d", name, got.Step, got.Reason, s.hooksOf(), got.Raised["orders"], n)
			}
			if try := got.GivenUp; len(try) != 1 || try[0].UnfrozenAt.Sub(try[0].FrozenAt) > 10*time.Second {
				t.Errorf("%s: %+v", name, try)
			}
		})
	}
}

// A try is abandoned when somebody writes after the freeze. The next one succeeds if he has stopped.
func TestAStrayGivesATryUp(t *testing.T) {
	playScene(t, func(s *scene) {
		s.inStep(checkpoint.CutoverDrain, func() {
			s.Sleep(2100 * time.Millisecond) // times of changes are rounded down to seconds
			s.Must(s.Source.Put(s.Ctx, "Parts", kit.Item("forgotten")))
		})
		got := s.play(brief(3))
		if got.Step != checkpoint.CutoverWatching || len(got.GivenUp) != 1 || !strings.HasPrefix(got.GivenUp[0].Reason, "the application still writes: item ") || got.Strays > 0 {
			t.Errorf("%s (%s) after %s: %+v", got.Step, got.Reason, s.hooksOf(), got.GivenUp)
		}
	})
}

// Whoever ends the request ends its tries: an operator while the application is let go, or a hook that
// refuses. A request that expires meanwhile does not freeze again, and hours are kept.
func TestWhatEndsTheTries(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(s *scene, p *checkpoint.CutoverPlan)
		reason  string
		hooks   string
	}{
		"an operator": {func(s *scene, _ *checkpoint.CutoverPlan) {
			s.inStep(checkpoint.CutoverCancelling, func() {
				s.Must(s.Update(func(c *checkpoint.Cutover) error { return c.Cancel("by an operator", s.Now()) }))
			})
		}, "by an operator", "freeze_writes 1, unfreeze_writes 1"},
		"a refusal": {func(s *scene, _ *checkpoint.CutoverPlan) {
			n := 0
			s.answers(FreezeWrites, func(Call) (string, Outcome) {
				n++
				return "no", map[bool]Outcome{true: HookDone, false: HookRefused}[n == 1]
			})
		}, "hook freeze_writes refused: no", "freeze_writes 1, unfreeze_writes 1, freeze_writes 2, unfreeze_writes 2"},
		"its expiry": {func(s *scene, p *checkpoint.CutoverPlan) { p.Expires = s.Now().Add(30 * time.Second) },
			"it expired before its next try: the freeze would last longer than 8s", "freeze_writes 1, unfreeze_writes 1"},
		"its hours": {func(s *scene, p *checkpoint.CutoverPlan) {
			p.From, p.To, p.Expires = 12*60, 12*60+1, s.Now().Add(5*time.Minute)
		}, "it expired before its next try: the freeze would last longer than 8s", "freeze_writes 1, unfreeze_writes 1"},
	} {
		t.Run(name, func(t *testing.T) {
			playScene(t, func(s *scene) {
				s.Source.Blind = true
				p := brief(3)
				c.prepare(s, &p)
				got := s.play(p)
				if got.Step != checkpoint.CutoverCancelled || !strings.HasPrefix(got.Reason, c.reason) || s.hooksOf() != c.hooks || !s.tablesGoOn() {
					t.Errorf("%s because of %q after %s", got.Step, got.Reason, s.hooksOf())
				}
			})
		})
	}
}

// A gate that the failure of a try has closed is waited for, also without --when-ready.
func TestTheNextTryWaitsForItsGates(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Source.Blind = true
		s.answers(UnfreezeWrites, func(Call) (string, Outcome) {
			s.Source.Blind = false
			s.parked["Parts"] = []string{"x"}
			s.World.After(time.Minute, func() { s.parked["Parts"] = nil })
			return "", HookDone
		})
		got := s.play(brief(2))
		if got.Step != checkpoint.CutoverWatching || got.FreezeBegunAt.Sub(got.GivenUp[0].UnfrozenAt) < time.Minute {
			t.Errorf("%s (%s), frozen at %v", got.Step, got.Reason, got.FreezeBegunAt)
		}
	})
}
