package freeze

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// The tables are frozen only once the probe was denied for a minute, the policies deny at the switch
// and during the watch, and are as before once it ends.
func TestCutoverByPolicy(t *testing.T) {
	playScene(t, func(s *scene) {
		s.start(plan())
		c := s.drive(s.driver, time.Hour, settled)
		if c.Step != checkpoint.CutoverWatching || fmt.Sprint(s.calls) != "[switch]" || !s.frozen[cutover.Switch] {
			t.Fatalf("%s because of %q, calls %v, frozen %v, failed %q", c.Step, c.Reason, s.calls, s.frozen, s.failed)
		}
		if took := c.FrozenAt.Sub(c.FreezeBegunAt); took < 65*time.Second || took > 75*time.Second {
			t.Errorf("the freeze took %s", took)
		}
		if took := c.SwitchedAt.Sub(c.FrozenAt); took > 20*time.Second {
			t.Errorf("the switch came %s after the freeze", took)
		}
		if d := c.Denial; !d.Left || d.Begins < 5*time.Second || d.Begins > 8*time.Second {
			t.Errorf("denial %+v", d)
		}
		if len(c.Hooks) != 1 {
			t.Errorf("calls in the record: %+v", c.Hooks)
		}
		s.drive(s.driver, 30*time.Minute, at(checkpoint.CutoverDone))
		if !s.denies() {
			t.Error("late writers are let through during the watch")
		}
		c = s.drive(s.driver, 2*time.Hour, at(checkpoint.CutoverDone))
		if c.Step != checkpoint.CutoverDone || c.Denial.Left || !s.clean() {
			t.Errorf("at the end: %s, %+v, policies %q", c.Step, c.Denial, s.service["Orders"].text)
		}
	})
}

// A cancel takes the statements out, and is over only when no late request can put one.
func TestCancelledByPolicy(t *testing.T) {
	for name, step := range map[string]checkpoint.CutoverStep{"while it begins": checkpoint.CutoverFreeze, "in the drain": checkpoint.CutoverDrain} {
		t.Run(name, func(t *testing.T) {
			playScene(t, func(s *scene) {
				s.start(plan())
				s.World.Go("cancel", func(ctx context.Context) {
					for s.Cutover().Step != step || step == checkpoint.CutoverFreeze && s.service["Orders"].puts == 0 {
						_ = task.Sleep(ctx, 100*time.Millisecond)
					}
					s.Must(s.Update(func(c *checkpoint.Cutover) error { return c.Cancel("by an operator", s.Now()) }))
				})
				c := s.drive(s.driver, time.Hour, settled)
				if c.Step != checkpoint.CutoverCancelled || c.Denial.Left || !s.clean() || len(s.calls) > 0 {
					t.Fatalf("%s, %+v, calls %v, policies %q, failed %q", c.Step, c.Denial, s.calls, s.service["Orders"].text, s.failed)
				}
				if took := c.EndedAt.Sub(c.FreezeBegunAt); took < wait {
					t.Errorf("it was over after %s: a late request could freeze the table", took)
				}
				if took := c.UnfrozenAt.Sub(c.FreezeBegunAt); took > 3*time.Minute {
					t.Errorf("the application waited %s", took)
				}
			})
		})
	}
}

// Hooks that are given are called while the policies deny nothing, so the application sees few errors.
func TestHooksBesidePolicies(t *testing.T) {
	playScene(t, func(s *scene) {
		s.driver.Missing = nil
		s.start(plan())
		s.World.Go("cancel", func(ctx context.Context) {
			for s.Cutover().Step != checkpoint.CutoverDrain {
				_ = task.Sleep(ctx, 100*time.Millisecond)
			}
			s.Must(s.Update(func(c *checkpoint.Cutover) error { return c.Cancel("by an operator", s.Now()) }))
		})
		c := s.drive(s.driver, time.Hour, settled)
		if fmt.Sprint(s.calls) != "[freeze_writes unfreeze_writes]" || s.frozen[cutover.FreezeWrites] || s.frozen[cutover.UnfreezeWrites] || c.Step != checkpoint.CutoverCancelled {
			t.Errorf("%s, calls %v, while policies deny: %v", c.Step, s.calls, s.frozen)
		}
	})
}

// A process whose configuration has no freeze by policies drives no cutover that needs one.
func TestProcessWithoutPolicies(t *testing.T) {
	playScene(t, func(s *scene) {
		s.driver.Freezer = nil
		p := plan()
		p.Expires = s.Now().Add(5 * time.Minute)
		s.start(p)
		c := s.drive(s.driver, 10*time.Minute, settled)
		if c.Step != checkpoint.CutoverRequested || !strings.Contains(strings.Join(s.failed, " "), "lacks cutover.freeze: table_policy") {
			t.Errorf("%s, failed %q", c.Step, s.failed)
		}
	})
}

// A put whose outcome is unknown is executed after the cancel. The statement is removed again before
// the attempt is over.
func TestLatePutIsTakenOut(t *testing.T) {
	playScene(t, func(s *scene) {
		orders := s.service["Orders"]
		orders.loses = true
		s.start(plan())
		s.World.Go("cancel", func(ctx context.Context) {
			for orders.puts == 0 {
				_ = task.Sleep(ctx, 10*time.Millisecond)
			}
			s.Must(s.Update(func(c *checkpoint.Cutover) error { return c.Cancel("by an operator", s.Now()) }))
		})
		c := s.drive(s.driver, time.Hour, settled)
		if c.Step != checkpoint.CutoverCancelled || !orders.late || !s.clean() {
			t.Errorf("%s, %d changes, policy %q", c.Step, orders.puts, orders.text)
		}
	})
}

type unfrozen struct {
	change func(s *scene, parts *service)
	at     checkpoint.CutoverStep // in which the change is made; "" before the attempt
	reason string
}

// What shows that a table is not frozen ends the attempt before the switch.
func TestTablesThatAreNotFrozen(t *testing.T) {
	for name, c := range map[string]unfrozen{
		"a write is let through":  {func(_ *scene, parts *service) { parts.open = true }, checkpoint.CutoverDrain, "a write to table Parts was let through during the freeze"},
		"the policy is put back":  {func(_ *scene, parts *service) { parts.set("") }, checkpoint.CutoverVerify, "a write to table Parts was let through during the freeze"},
		"the probe is deaf":       {func(_ *scene, parts *service) { parts.mute = true }, checkpoint.CutoverDrain, "still denies writes: the probe has no answer"},
		"the probe may not write": {func(_ *scene, parts *service) { parts.blind = true }, "", "table Parts: freeze Parts: the writes of the probe's role are denied before the freeze"},
		"the policy is refused":   {func(_ *scene, parts *service) { parts.rejects = "it is too large" }, "", "table Parts: change the resource policy of Parts: it is too large"},
		"it is never in force":    {func(_ *scene, parts *service) { parts.open = true }, "", "freeze took more than 4m"},
	} {
		t.Run(name, func(t *testing.T) {
			playScene(t, func(s *scene) {
				parts := s.service["Parts"]
				parts.delay = time.Second
				if c.at == "" {
					c.change(s, parts)
				} else {
					s.World.Go("change", func(ctx context.Context) {
						for s.Cutover().Step != c.at {
							_ = task.Sleep(ctx, 10*time.Millisecond)
						}
						c.change(s, parts)
					})
				}
				s.start(plan())
				answers := s.Now().Add(12 * time.Minute)
				s.World.After(12*time.Minute, func() { parts.mute, parts.blind, parts.rejects = false, false, "" })
				got := s.drive(s.driver, 2*time.Hour, settled)
				if got.Step != checkpoint.CutoverCancelled || !strings.Contains(got.Reason, c.reason) || len(s.calls) > 0 || !s.clean() {
					t.Errorf("%s because of %q after %v; policies %q; failed %q", got.Step, got.Reason, s.calls, s.service["Orders"].text+parts.text, s.failed)
				}
				if name == "the probe is deaf" && got.UnfrozenAt.Before(answers) {
					t.Errorf("the end of the freeze is claimed at %s, and the probe answers from %s on: %+v", got.UnfrozenAt, answers, got.Timeline)
				}
				if name == "a write is let through" && !c.stays(got) {
					t.Errorf("it did not end in step %s: %+v", c.at, got.Timeline)
				}
			})
		})
	}
}

// stays reports whether the attempt has reached no step after the one of the change.
func (c unfrozen) stays(of checkpoint.Cutover) bool {
	last := ""
	for _, e := range of.Timeline {
		if e.Step != string(checkpoint.CutoverCancelling) && e.Step != string(checkpoint.CutoverCancelled) {
			last = e.Step
		}
	}
	return last == string(c.at)
}

// A driver dies at each step, and another one ends the cutover. It does not prove the freeze again.
func TestSuccessorOfADriver(t *testing.T) {
	for _, step := range []checkpoint.CutoverStep{checkpoint.CutoverFreeze, checkpoint.CutoverDrain, checkpoint.CutoverVerify, checkpoint.CutoverCancelling} {
		t.Run(string(step), func(t *testing.T) {
			playScene(t, func(s *scene) {
				p := plan()
				p.FreezeAtMost = 2 * time.Minute
				s.start(p)
				if step == checkpoint.CutoverCancelling {
					s.World.After(90*time.Second, func() {
						_ = s.Update(func(c *checkpoint.Cutover) error { return c.Cancel("by an operator", s.Now()) })
					})
				}
				s.drive(s.driver, time.Hour, func(c checkpoint.Cutover) bool { return c.Step == step && !s.service["Orders"].s.clean() })
				other := s.Open("other")
				other.Heard(s.Ctx, s.Now())
				c := s.drive(s.newDriver(other, s.newPolicy(other)), time.Hour, settled)
				if step == checkpoint.CutoverCancelling {
					if c.Step != checkpoint.CutoverCancelled || !s.clean() {
						t.Errorf("%s because of %q: %q", c.Step, c.Reason, s.service["Orders"].text)
					}
					return
				}
				if c.Step != checkpoint.CutoverWatching || !s.frozen[cutover.Switch] || s.service["Orders"].puts != 1 {
					t.Errorf("%s because of %q, %d changes; failed %q", c.Step, c.Reason, s.service["Orders"].puts, s.failed)
				}
			})
		})
	}
}

// A rehearsal denies the writes of the probe's role alone, and measures both delays.
func TestRehearsalOfPolicies(t *testing.T) {
	playScene(t, func(s *scene) {
		s.driver.Hooks = nil
		p := plan()
		p.Rehearse = true
		s.start(p)
		s.World.Go("look", func(ctx context.Context) {
			for s.clean() {
				_ = task.Sleep(ctx, 10*time.Millisecond)
			}
			if text := s.service["Orders"].text; !strings.Contains(text, `"ArnLike":{"aws:PrincipalArn":["arn:aws:iam::111122223333:role/probe"]}`) {
				t.Errorf("the statement is %s", text)
			}
		})
		c := s.drive(s.driver, time.Hour, settled)
		if c.Step != checkpoint.CutoverRehearsed || !s.clean() || c.Denial.Rehearsed != 1 || c.Denial.Begins < 5*time.Second || c.Denial.Ends < 5*time.Second || c.Measured == 0 || c.Measured > time.Minute {
			t.Fatalf("%s because of %q: %+v, measured %s", c.Step, c.Reason, c.Denial, c.Measured)
		}
		c = s.drive(s.driver, time.Hour, func(c checkpoint.Cutover) bool { return !c.Denial.Left })
		if c.Denial.Left {
			t.Error("the rehearsal is never over")
		}
		p.Rehearse = false
		s.driver.Hooks = s
		s.start(p)
		if c = s.drive(s.driver, time.Hour, settled); c.Step != checkpoint.CutoverWatching || c.Denial.Begins < 5*time.Second {
			t.Errorf("%s because of %q: %+v", c.Step, c.Reason, c.Denial)
		}
	})
}

// A rehearsal is cancelled while the probe's role is denied. A cutover that begins at once takes that
// statement out before it freezes the table.
func TestCutoverAfterHalfARehearsal(t *testing.T) {
	playScene(t, func(s *scene) {
		p := plan()
		p.Rehearse = true
		s.start(p)
		s.World.Go("cancel", func(ctx context.Context) {
			for !s.denies() {
				_ = task.Sleep(ctx, 10*time.Millisecond)
			}
			s.service["Orders"].busy = true
			s.Must(s.Update(func(c *checkpoint.Cutover) error { return c.Cancel("by an operator", s.Now()) }))
		})
		s.drive(s.driver, time.Hour, settled)
		if s.clean() {
			t.Error("no statement is left")
		}
		s.service["Orders"].busy = false
		s.start(plan())
		if c := s.drive(s.driver, time.Hour, settled); c.Step != checkpoint.CutoverWatching || !strings.Contains(s.service["Orders"].text, "ArnNotLike") {
			t.Errorf("%s because of %q: %q", c.Step, c.Reason, s.service["Orders"].text)
		}
	})
}

// A try is abandoned, and the next one freezes the tables again at once. If it expires before, the
// driver still makes sure that no late request of the former try freezes a table.
func TestNextTryByPolicy(t *testing.T) {
	for name, expires := range map[string]bool{"again": false, "expired": true} {
		t.Run(name, func(t *testing.T) {
			playScene(t, func(s *scene) {
				p := plan()
				p.Tries = 2
				p.Expires = s.Now().Add(4 * time.Minute)
				if !expires {
					p.Expires = time.Time{}
				}
				s.start(p)
				s.World.Go("disturb", func(ctx context.Context) {
					for s.Cutover().Step != checkpoint.CutoverDrain {
						_ = task.Sleep(ctx, 10*time.Millisecond)
					}
					if expires {
						s.Change("Orders", func(st *checkpoint.TableState) { st.NeedsLoad = true })
					}
					s.Must(s.Update(func(c *checkpoint.Cutover) error { return c.GiveUp("it takes too long", checkpoint.CureWait, s.Now()) }))
				})
				c := s.drive(s.driver, time.Hour, settled)
				if expires {
					if c.Step != checkpoint.CutoverCancelled || c.Denial.Left || !s.clean() || c.EndedAt.Sub(c.GivenUp[0].FreezeBegunAt) < wait {
						t.Errorf("%s because of %q: %+v at %s", c.Step, c.Reason, c.Denial, c.EndedAt)
					}
					return
				}
				if c.Step != checkpoint.CutoverWatching || c.Attempt != 2 || !s.frozen[cutover.Switch] {
					t.Errorf("%s because of %q, attempt %d; failed %q", c.Step, c.Reason, c.Attempt, s.failed)
				}
			})
		})
	}
}

// A driver reads the record of a table and sleeps. Meanwhile, another driver cancels the attempt. The
// first one then puts no statement, because no process would take it out (Z2).
func TestSleeperBeginsNoFreeze(t *testing.T) {
	playScene(t, func(s *scene) {
		s.start(plan())
		c := s.drive(s.driver, time.Hour, at(checkpoint.CutoverChecks))
		proof := func(context.Context) (time.Time, error) { return s.Now(), nil }
		group := task.NewGroup(s.Ctx, 0)
		exempt := s.policy.Exempt
		s.policy.Exempt = func(ctx context.Context) ([]string, error) {
			_ = task.Sleep(ctx, time.Minute)
			return exempt(ctx)
		}
		sleeper := s.policy.Begin(c, group, proof)
		s.World.Go("cancel", func(ctx context.Context) {
			_ = task.Sleep(ctx, 10*time.Second)
			s.Must(s.newPolicy(s.Open("awake")).Begin(c, group, proof).Unfreeze(ctx, c))
		})
		err := sleeper.Freeze(s.Ctx, c)
		if !errors.Is(err, checkpoint.ErrMoved) || s.service["Orders"].puts+s.service["Parts"].puts > 0 {
			t.Errorf("the sleeper's freeze: %v, %d changes", err, s.service["Orders"].puts)
		}
		if !s.Cutover().Denial.Left {
			t.Error("the record of the cutover does not say that a statement may be left (Z1)")
		}
		if err := s.policy.Begin(c, group, proof).Freeze(s.Ctx, c); err == nil || s.service["Orders"].puts > 0 {
			t.Errorf("a freeze that ends begins again: %v", err)
		}
	})
}

// Before a rollback moves the application back, the statements are out of the policies, and writes
// were let through for a minute. A write that is denied meanwhile begins the minute again.
func TestPoliciesLetWritesThroughBeforeARollback(t *testing.T) {
	playScene(t, func(s *scene) {
		s.start(plan())
		c := s.drive(s.driver, time.Hour, settled)
		if c.Step != checkpoint.CutoverWatching {
			t.Fatalf("%s because of %q", c.Step, c.Reason)
		}
		proof := func(context.Context) (time.Time, error) { return s.Now(), nil }
		began := s.Now()
		s.World.After(30*time.Second, func() { s.service["Parts"].blind = true })
		s.World.After(40*time.Second, func() { s.service["Parts"].blind = false })
		s.Must(s.newPolicy(s.Ledger).Begin(c, task.NewGroup(s.Ctx, 0), proof).Reopen(s.Ctx, c))
		if took := s.Now().Sub(began); took < 100*time.Second || took > 110*time.Second || !s.clean() || s.denies() {
			t.Errorf("the tables are open after %s, policies %q", took, s.service["Orders"].text)
		}
		if !s.Cutover().Denial.Left {
			t.Error("nothing makes sure of the end any more")
		}
	})
}
