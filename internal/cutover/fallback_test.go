package cutover

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

// A cutover with a way back prepares it before the freeze: the leaders read, and write nothing. They
// follow once the application has switched.
func TestTheWayBackBegins(t *testing.T) {
	playScene(t, func(s *scene) {
		b := &backScene{scene: s, left: time.Second, changes: func(*checkpoint.Fallback) {}}
		b.prepare(s.driver)
		b.lead()
		states := map[string]string{}
		s.hook = func(call Call) (string, Outcome) {
			if !call.Probe {
				states[call.Hook] = b.states()
			}
			return "", HookDone
		}
		from := s.Now().Add(-time.Minute)
		c := s.play(backPlan())
		s.driveFor(10 * time.Second)
		if fmt.Sprint(states) != "map[freeze_writes:standby standby switch:standby standby]" || b.states() != "following following" || !c.WayBack || !c.HasFallback() {
			t.Errorf("%s: %v, then %s", c.Step, states, b.states())
		}
		f, _, err := s.Ledger.Fallback(s.Ctx, "Parts")
		if err != nil || f.Attempt != 1 || f.Window != time.Minute || f.Wait != backWait || f.From.Before(from) || !f.From.Before(c.FreezeBegunAt) {
			t.Errorf("%+v, %v", f, err)
		}
		if c.PolicyWait != backWait {
			t.Errorf("a change of a policy may be executed for %s", c.PolicyWait)
		}
		// The leaders watch the source, so the watch has no end, and its changes are no stragglers.
		s.Must(s.Source.Put(s.Ctx, "Parts", kit.Item("of the leader")))
		s.driver.Settings.Pass = 20 * time.Second
		c = s.run(2*time.Hour, nil)
		if c.Step != checkpoint.CutoverWatching || c.Strays != 0 || s.Now().Sub(c.WatchedTo) > 2*time.Minute {
			t.Errorf("after two hours: %s, %d strays, watched to %v", c.Step, c.Strays, c.WatchedTo)
		}
	})
}

// A rehearsal and a cutover without a way back make no records.
func TestNoWayBack(t *testing.T) {
	for name, change := range map[string]func(p *checkpoint.CutoverPlan){"rehearsed": func(p *checkpoint.CutoverPlan) { p.Rehearse = true }, "not wanted": func(p *checkpoint.CutoverPlan) { p.KeepFallback = false }} {
		playScene(t, func(s *scene) {
			(&backScene{scene: s}).prepare(s.driver)
			p := backPlan()
			change(&p)
			c := s.play(p)
			if _, found, err := s.Ledger.Fallback(s.Ctx, "Orders"); found || err != nil || c.WayBack || c.PolicyWait != 0 || c.Step == checkpoint.CutoverCancelled {
				t.Errorf("%s: %s because of %q: record %t, %v", name, c.Step, c.Reason, found, err)
			}
		})
	}
}

// A way back that is not possible keeps the gate open, so nothing is frozen.
func TestAnImpossibleWayBack(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *scene)
		reason string
	}{
		"a problem": {func(s *scene) {
			s.driver.WayBack = func(_ context.Context, source string) (w WayBack, _ error) {
				if source == "Parts" {
					w.Problem = "there is no change stream"
				}
				return w, nil
			}
		}, "gate fallback of table Parts is not ready: there is no change stream"},
		"no check": {func(s *scene) { s.driver.WayBack = nil }, "this process cannot check the way back"},
		"a missing row": {func(s *scene) {
			s.driver.Settings.Ready.ParkedAtMost = 5
			s.parked["Orders"] = []string{"x"}
		}, "gate fallback of table Orders is not ready: 1 items have no row, and the way back would remove them"},
	} {
		playScene(t, func(s *scene) {
			(&backScene{scene: s}).prepare(s.driver)
			c.change(s)
			got := s.play(backPlan())
			if _, found, err := s.Ledger.Fallback(s.Ctx, "Orders"); found || err != nil {
				t.Errorf("%s: record %t, %v", name, found, err)
			}
			if got.Step != checkpoint.CutoverCancelled || !strings.Contains(got.Reason, c.reason) || len(s.calls) > 0 {
				t.Errorf("%s: %s because of %q after %v", name, got.Step, got.Reason, s.calls)
			}
		})
	}
}

// The ways back of a cancelled cutover end. The next one begins them again, from a later time, also
// if leaders have not stopped yet or have lost changes.
func TestTheWayBackOfTheNextAttempt(t *testing.T) {
	for _, state := range []checkpoint.FallbackState{checkpoint.FallbackStopping, checkpoint.FallbackStopped, checkpoint.FallbackGap} {
		playScene(t, func(s *scene) {
			b := &backScene{scene: s}
			b.prepare(s.driver)
			s.final = func(string) checkpoint.VerifyResult {
				return checkpoint.VerifyResult{VerifyCounts: checkpoint.VerifyCounts{Different: 1}}
			}
			if state == checkpoint.FallbackGap {
				s.answers(FreezeWrites, func(Call) (string, Outcome) {
					s.Must(s.driver.setFallbacks(s.Ctx, plan().Tables, 1, checkpoint.FallbackGap, checkpoint.FallbackStandby))
					return "", HookDone
				})
			}
			if c := s.play(backPlan()); c.Step != checkpoint.CutoverCancelled || b.states() != "stopping stopping" {
				t.Fatalf("%s, %s", c.Step, b.states())
			}
			first, _, err := s.Ledger.Fallback(s.Ctx, "Orders")
			s.Must(err)
			s.Must(s.driver.updateFallbacks(s.Ctx, plan().Tables, func(f *checkpoint.Fallback) { f.State, f.Reason, f.Since = state, "x", s.Now() }))
			s.final = func(string) checkpoint.VerifyResult { return checkpoint.VerifyResult{} }
			s.hook = func(Call) (string, Outcome) { return "", HookDone }
			s.Sleep(time.Minute)
			c := s.play(backPlan())
			s.driveFor(time.Minute)
			f, _, err := s.Ledger.Fallback(s.Ctx, "Orders")
			if err != nil || c.Step != checkpoint.CutoverWatching || b.states() != "following following" || f.Attempt != 2 || !f.From.After(first.From) || f.Reason != "" || !f.Since.IsZero() {
				t.Errorf("%s because of %q: %+v, %v", c.Step, c.Reason, f, err)
			}
		})
	}
}

// The states of ways back are changed only if they belong to the attempt and have a given state.
func TestWhichWaysBackAreSet(t *testing.T) {
	playScene(t, func(s *scene) {
		b := &backScene{scene: s}
		set := func(attempt uint32, state checkpoint.FallbackState) {
			s.Must(s.driver.updateFallbacks(s.Ctx, plan().Tables, func(f *checkpoint.Fallback) { f.Attempt, f.State = attempt, state }))
		}
		for _, c := range []struct {
			attempt uint32
			state   checkpoint.FallbackState
			want    string
		}{{2, checkpoint.FallbackGap, "stopping stopping"}, {2, checkpoint.FallbackFollowing, "following following"}, {3, checkpoint.FallbackGap, "gap gap"}} {
			set(c.attempt, c.state)
			s.Must(s.driver.setFallbacks(s.Ctx, plan().Tables, 2, checkpoint.FallbackStopping, checkpoint.FallbackStandby, checkpoint.FallbackGap))
			if got := b.states(); got != c.want {
				t.Errorf("%d, %s: %s", c.attempt, c.state, got)
			}
		}
	})
}

// An operator ends the way back: the leaders stop, the command waits for that, and the watch goes on
// as without a way back. What the leaders wrote is no straggler, and what is written later is one.
func TestEndFallback(t *testing.T) {
	playBack(t, func(s *backScene) {
		s.left = 20 * time.Second
		s.Must(s.Source.Put(s.Ctx, "Parts", kit.Item("of the leader")))
		var waits []string
		began := s.Now()
		s.Must(s.driver.EndFallback(s.Ctx, "", func(why string) { waits = append(waits, why) }))
		c := s.Cutover()
		if s.states() != "stopped stopped" || c.HasFallback() || c.FallbackEndedAt.Sub(began) < 20*time.Second || len(waits) == 0 || waits[0] != "table Orders: its leader has not stopped yet" {
			t.Errorf("%s, ended after %s, waited %q", s.states(), c.FallbackEndedAt.Sub(began), waits)
		}
		s.Must(s.driver.EndFallback(s.Ctx, "", func(why string) { t.Errorf("a second time it waits: %s", why) }))
		s.driveFor(2 * time.Minute)
		if c := s.Cutover(); c.Strays != 0 || c.Step != checkpoint.CutoverWatching {
			t.Errorf("%s: %+v", c.Step, c.Stragglers)
		}
		s.Must(s.Source.Put(s.Ctx, "Parts", kit.Item("late")))
		s.driveFor(2 * time.Minute)
		if c := s.Cutover(); c.Strays != 1 || c.Stragglers[0].Table != "Parts" || c.Stragglers[0].Tail {
			t.Errorf("%d strays: %+v", c.Strays, c.Stragglers)
		}
		c = s.run(2*time.Hour, at(checkpoint.CutoverDone))
		if over := c.EndedAt.Sub(c.SwitchedAt); c.Step != checkpoint.CutoverDone || over < time.Hour || over > time.Hour+2*time.Minute {
			t.Errorf("%s after %s", c.Step, over)
		}
	})
}

// A way back that ends after the planned watch gets an hour to read what is left.
func TestTheWatchAfterALongWayBack(t *testing.T) {
	playBack(t, func(s *backScene) {
		s.driver.Settings.Pass = 20 * time.Second
		s.run(70*time.Minute, nil)
		s.Must(s.driver.EndFallback(s.Ctx, "", func(string) {}))
		ended := s.Now()
		s.Source.Fail = func(call string) error {
			if call == "Read" {
				return errors.New("no stream")
			}
			return nil
		}
		if c := s.run(50*time.Minute, nil); c.Step != checkpoint.CutoverWatching {
			t.Errorf("%s while the streams cannot be read", c.Step)
		}
		s.Source.Fail = nil
		if c := s.drive(at(checkpoint.CutoverDone)); c.Step != checkpoint.CutoverDone || len(c.Unwatched) != 0 || c.EndedAt.Sub(ended) > time.Hour {
			t.Errorf("%s after %s: %+v", c.Step, c.EndedAt.Sub(ended), c.Unwatched)
		}
	})
}

// What ends no way back.
func TestWaysBackThatDoNotEnd(t *testing.T) {
	playBack(t, func(s *backScene) {
		s.request()
		err := s.driver.EndFallback(s.Ctx, "", func(string) {})
		if !errors.Is(err, checkpoint.ErrCutover) || s.states() != "following following" {
			t.Errorf("during a rollback: %v, %s", err, s.states())
		}
		s.finish()
		if err := s.driver.EndFallback(s.Ctx, "", func(string) {}); !errors.Is(err, checkpoint.ErrCutover) {
			t.Errorf("after a rollback: %v", err)
		}
	})
	// A rollback begins while the command waits. The command ends, and the rollback decides.
	playBack(t, func(s *backScene) {
		s.left = time.Hour
		began := false
		err := s.driver.EndFallback(s.Ctx, "", func(string) {
			if !began {
				began = true
				s.request()
			}
		})
		c := s.Cutover()
		if !errors.Is(err, checkpoint.ErrCutover) || !c.FallbackEndedAt.IsZero() || !c.RollingBack() {
			t.Errorf("%v: %v", err, c.FallbackEndedAt)
		}
	})
	playBack(t, func(s *backScene) {
		ctx, cancel := context.WithCancel(s.Ctx)
		s.left = time.Hour
		s.World.After(time.Minute, cancel)
		if err := s.driver.EndFallback(ctx, "", func(string) {}); err == nil {
			t.Errorf("interrupted: %v", err)
		}
		c := s.Cutover()
		if !c.FallbackEndedAt.IsZero() || s.states() != "stopping stopping" {
			t.Errorf("interrupted: %v, %s", c.FallbackEndedAt, s.states())
		}
		s.left = 0
		s.Must(s.driver.EndFallback(s.Ctx, "", func(string) {})) // the command is repeated
	})
}

// Leaders may stand by for an attempt that is cancelled before its freeze. They are released.
func TestTheWayBackOfAnAttemptWithoutAFreeze(t *testing.T) {
	playScene(t, func(s *scene) {
		b := &backScene{scene: s, left: time.Second, changes: func(*checkpoint.Fallback) {}}
		b.prepare(s.driver)
		b.lead()
		for _, source := range backPlan().Tables {
			_, err := s.Ledger.UpdateFallback(s.Ctx, source, 0, func(f *checkpoint.Fallback) error {
				f.Attempt, f.State = 1, checkpoint.FallbackStandby
				return nil
			})
			s.Must(err)
		}
		_, err := s.Ledger.UpdateCutover(s.Ctx, "", func(c *checkpoint.Cutover) error {
			if err := c.Start(backPlan(), s.Now()); err != nil {
				return err
			}
			c.WayBack, c.Canaries = true, true // the moment for the freeze passed
			return c.Cancel("by an operator", s.Now())
		})
		s.Must(err)
		s.driveFor(time.Minute)
		if states := b.states(); states != "stopped stopped" {
			t.Errorf("a minute after the cancel: %s", states)
		}
	})
}
