package cutover

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

const (
	backFreeze   = "back freeze_writes following following"
	backSwitch   = "back switch stopped stopped"
	backUnfreeze = "back unfreeze_writes following following"
)

// A rollback freezes the application, waits until everything from before the freeze and a minute
// after it has reached the source, compares all rows, stops the leaders, switches, and returns the
// tables, which need a load. Then another cutover may begin.
func TestARollback(t *testing.T) {
	playBack(t, func(s *backScene) {
		before := map[string]checkpoint.Target{}
		for _, target := range plan().Targets {
			before[target], _, _ = s.Ledger.Target(s.Ctx, target)
		}
		r := s.undo()
		c := s.Cutover()
		s.called(backFreeze, backSwitch)
		if r.Step != checkpoint.CutoverDone || c.Step != checkpoint.CutoverRolledBack || steps(r) != "requested checks freeze drain verify fence switching watching done" || c.SafeToWrite() {
			t.Fatalf("%s, %s: %s; failed %q", r.Step, c.Step, steps(r), s.failed)
		}
		if least := r.FrozenAt.Add(time.Minute); len(s.reversed) != 2 || s.reversed[0].Before(least) || s.reversed[1].Before(least) {
			t.Errorf("frozen at %v, compared at %v", r.FrozenAt, s.reversed)
		}
		for _, proof := range r.Proofs {
			if at, err := time.Parse(time.RFC3339, proof.Position); err != nil || at.Before(r.FrozenAt.Add(time.Minute).Truncate(time.Second)) {
				t.Errorf("%+v", proof)
			}
		}
		if v := r.Verified["Parts"]; len(r.Proofs) != 2 || len(r.Verified) != 2 || v.Way != "reverse" || v.Rows != 1000 || v.BegunAt.Before(r.FrozenAt) || len(r.Gates) != 8 || r.GoneAt.Before(v.EndedAt) || r.Measured < time.Minute {
			t.Errorf("the evidence: %+v", r)
		}
		for _, source := range plan().Tables {
			if state := s.Table(source); state.Halted() || !state.NeedsLoad || state.Kind != checkpoint.KindRolledBack || state.Generation <= 5 || !state.MadeByUs {
				t.Errorf("table %s: %+v", source, state.Halt)
			}
		}
		for _, target := range plan().Targets {
			if now, _, _ := s.Ledger.Target(s.Ctx, target); now.Halted() || now.Fence <= before[target].Fence {
				t.Errorf("target %s: %+v", target, now)
			}
		}
		if !s.tablesGoOn() {
			t.Error("no process may write the targets")
		}
		calls := len(s.calls)
		s.driveFor(time.Hour)
		if len(s.calls) != calls || s.Cutover().Step != checkpoint.CutoverRolledBack {
			t.Errorf("an hour later: %s, calls %v", s.Cutover().Step, s.calls)
		}
		s.start(plan())
		orders := s.Table("Orders")
		if c := s.Cutover(); c.Attempt != 3 || orders.HaltFor(c.Attempt) != nil {
			t.Errorf("the next cutover: attempt %d", c.Attempt)
		}
	})
}

// What shows that the application cannot be moved back cancels the rollback: before the freeze without
// a call of a hook, and else with leaders that follow again before the application may write.
func TestRollbacksThatAreCancelled(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *backScene)
		reason string
		calls  []string
	}{
		"a gate": {func(s *backScene) { s.changes = func(f *checkpoint.Fallback) { f.Parked = 1 }; s.Sleep(time.Second) }, "gate carried of table Orders is not ready: 1 rows cannot be carried", nil},
		"a difference": {func(s *backScene) {
			s.reverse = func(source string) (r checkpoint.ReverseResult, _ error) {
				if source == "Parts" {
					r.Different = 3
				}
				return r, nil
			}
		}, "table Parts: 3 items differ from their rows, and 0 rows cannot be carried", []string{backFreeze, backUnfreeze}},
		"the comparison finds a parked row": {func(s *backScene) {
			s.reverse = func(string) (checkpoint.ReverseResult, error) { return checkpoint.ReverseResult{Parked: 1}, nil }
		}, "0 items differ from their rows, and 1 rows cannot be carried", []string{backFreeze, backUnfreeze}},
		"the hook refuses": {func(s *backScene) {
			s.answers(FreezeWrites, func(Call) (string, Outcome) { s.moments = append(s.moments, backFreeze); return "no", HookRefused })
		}, "hook freeze_writes refused: no", []string{backFreeze, backUnfreeze}},
		"the drain never ends": {func(s *backScene) { s.World.After(30*time.Second, func() { s.stuck = s.Now() }) }, "the deadline of the freeze has passed in step drain: table ", []string{backFreeze, backUnfreeze}},
		"a row is parked": {func(s *backScene) {
			s.World.After(30*time.Second, func() { s.changes = func(f *checkpoint.Fallback) { f.Parked = 1 } })
		}, "1 rows cannot be carried", []string{backFreeze, backUnfreeze}},
		"the comparison fails": {func(s *backScene) {
			s.reverse = func(string) (checkpoint.ReverseResult, error) { return checkpoint.ReverseResult{}, errAway }
		}, "step verify: the comparison failed and is repeated: ", []string{backFreeze, backUnfreeze}},
		"a leader never stops": {func(s *backScene) { s.left = time.Hour }, "step fence: table ", []string{backFreeze, backUnfreeze}},
		"the switch is refused": {func(s *backScene) {
			s.answers(Switch, func(Call) (string, Outcome) { s.moments = append(s.moments, backSwitch); return "no", HookRefused })
		}, "not switched, according to the hook", []string{backFreeze, backSwitch, backUnfreeze}},
		"an operator denies the switch": {func(s *backScene) {
			s.answers(Switch, func(Call) (string, Outcome) {
				s.World.After(10*time.Second, func() {
					s.Must(s.Update(func(c *checkpoint.Cutover) error {
						return c.Steer(func(r *checkpoint.Cutover) error { return r.Resolve(false, s.Now()) })
					}))
				})
				s.moments = append(s.moments, backSwitch)
				_ = task.Sleep(s.Ctx, 20*time.Second)
				return "?", HookUnknown
			})
		}, "not switched, according to an operator", []string{backFreeze, backSwitch, backUnfreeze}},
	} {
		t.Run(name, func(t *testing.T) {
			playBack(t, func(s *backScene) {
				c.change(s)
				r := s.undo()
				s.changes = func(f *checkpoint.Fallback) { f.Parked = 0 }
				s.stuck = time.Time{}
				s.called(c.calls...)
				s.stays(r, c.reason)
				if tables := s.Table("Orders"); tables.NeedsLoad || !tables.Halted() {
					t.Errorf("the tables are returned: %+v", tables.Halt)
				}
				// What has happened hinders no other rollback.
				s.reverse = func(string) (checkpoint.ReverseResult, error) { return checkpoint.ReverseResult{}, nil }
				s.hook, s.left, s.moments = func(Call) (string, Outcome) { return "", HookDone }, 0, nil
				s.driveFor(2 * backWait)
				if r := s.undo(); r.Step != checkpoint.CutoverDone {
					t.Errorf("the next rollback: %s because of %q", r.Step, r.Reason)
				}
			})
		})
	}
}

// Lost changes cancel a rollback in the drain and in the goodbye. The way back stays lost.
func TestAGapCancelsARollback(t *testing.T) {
	for _, step := range []checkpoint.CutoverStep{checkpoint.CutoverDrain, checkpoint.CutoverFence} {
		t.Run(string(step), func(t *testing.T) {
			playBack(t, func(s *backScene) {
				s.left = 30 * time.Second
				s.changes = func(f *checkpoint.Fallback) {
					if f.Source == "Parts" && s.backAt(step)(checkpoint.Cutover{}) {
						f.State, f.Reason = checkpoint.FallbackGap, "a token is too old"
					}
				}
				r := s.undo()
				if r.Step != checkpoint.CutoverCancelled || r.Reason != "table Parts: changes were lost: a token is too old" || s.states() != "following gap" {
					t.Errorf("%s because of %q: %s", r.Step, r.Reason, s.states())
				}
				s.called(backFreeze, "back unfreeze_writes following gap")
			})
		})
	}
}

// Rows that cannot be carried do not hinder a rollback if the operator overrides that gate.
func TestARollbackOverParkedRows(t *testing.T) {
	playBack(t, func(s *backScene) {
		s.changes = func(f *checkpoint.Fallback) { f.Parked = 2 }
		s.reverse = func(string) (checkpoint.ReverseResult, error) { return checkpoint.ReverseResult{Parked: 2}, nil }
		s.Sleep(time.Second)
		r := s.undo(func(p *checkpoint.CutoverPlan) {
			p.Overrides = []checkpoint.CutoverOverride{{Gate: readiness.GateCarried, Reason: "known"}}
		})
		if r.Step != checkpoint.CutoverDone || r.Verified["Orders"].Kept != 2 {
			t.Errorf("%s because of %q: %+v", r.Step, r.Reason, r.Verified)
		}
	})
}

// The minute after the freeze is counted on what the leaders have settled, not on a clock.
func TestTheDrainBackWaitsForTheWatermark(t *testing.T) {
	playBack(t, func(s *backScene) {
		s.stuck = s.Now()
		s.World.After(4*time.Minute, func() { s.stuck = time.Time{} })
		began := s.Now()
		r := s.undo()
		if r.Step != checkpoint.CutoverDone || s.reversed[0].Sub(began) < 4*time.Minute {
			t.Errorf("%s: compared after %s", r.Step, s.reversed[0].Sub(began))
		}
	})
}

// A driver dies in each step, and another one ends the rollback.
func TestSuccessorOfARollbacksDriver(t *testing.T) {
	for _, step := range []checkpoint.CutoverStep{checkpoint.CutoverChecks, checkpoint.CutoverFreeze, checkpoint.CutoverDrain, checkpoint.CutoverVerify, checkpoint.CutoverFence, checkpoint.CutoverSwitching, checkpoint.CutoverWatching, checkpoint.CutoverCancelling} {
		t.Run(string(step), func(t *testing.T) {
			playBack(t, func(s *backScene) {
				if step == checkpoint.CutoverCancelling {
					s.reverse = func(string) (checkpoint.ReverseResult, error) { return checkpoint.ReverseResult{Different: 1}, nil }
				}
				s.request()
				s.drive(s.backAt(step))
				other := s.Open("other")
				other.Heard(s.Ctx, s.Now())
				successor := *s.driver
				successor.Ledger, successor.Fence = other, fence.Fence{Ledger: other, Families: s.Target}
				s.driver = &successor
				r := s.finish()
				if step == checkpoint.CutoverCancelling {
					s.called(backFreeze, backUnfreeze)
					s.stays(r, "1 items differ")
					return
				}
				s.called(backFreeze, backSwitch)
				if parts := s.Table("Parts"); r.Step != checkpoint.CutoverDone || !s.Table("Orders").NeedsLoad || parts.Halted() {
					t.Errorf("%s because of %q; failed %q", r.Step, r.Reason, s.failed)
				}
			})
		})
	}
}

// An operator cancels a rollback in each step before the switch. A hook is called only if the freeze
// has begun.
func TestARollbackIsCancelledInEachStep(t *testing.T) {
	for step, hooks := range map[checkpoint.CutoverStep][]string{
		checkpoint.CutoverChecks: nil, checkpoint.CutoverFreeze: {backUnfreeze}, checkpoint.CutoverDrain: {backFreeze, backUnfreeze},
		checkpoint.CutoverVerify: {backFreeze, backUnfreeze}, checkpoint.CutoverFence: {backFreeze, backUnfreeze},
	} {
		t.Run(string(step), func(t *testing.T) {
			playBack(t, func(s *backScene) {
				s.request()
				if step != checkpoint.CutoverChecks {
					s.drive(func(checkpoint.Cutover) bool { return s.backAt(step)(checkpoint.Cutover{}) })
				}
				s.Must(s.Update(func(c *checkpoint.Cutover) error {
					return c.Steer(func(r *checkpoint.Cutover) error { return r.Cancel("by an operator", s.Now()) })
				}))
				s.stays(s.finish(), "by an operator")
				s.called(hooks...)
			})
		})
	}
}

// It is unknown whether the application has switched back: the hook is asked again until it answers.
// Nothing is returned before, and no cancel is possible.
func TestTheSwitchBackIsUnknown(t *testing.T) {
	playBack(t, func(s *backScene) {
		asked := 0
		s.answers(Switch, func(Call) (string, Outcome) {
			asked++
			orders := s.Table("Orders")
			if c := s.Cutover(); c.Step != checkpoint.CutoverWatching || !orders.Halted() {
				t.Errorf("%s before the answer", c.Step)
			}
			if err := s.Update(func(c *checkpoint.Cutover) error {
				return c.Steer(func(r *checkpoint.Cutover) error { return r.Cancel("no", s.Now()) })
			}); !errors.Is(err, checkpoint.ErrCutover) {
				t.Errorf("cancelled: %v", err)
			}
			if asked < 4 {
				return "timeout", HookUnknown
			}
			return "", HookDone
		})
		if r := s.undo(); r.Step != checkpoint.CutoverDone || asked != 4 || s.states() != "stopped stopped" {
			t.Errorf("%s after %d calls, ways back %s", r.Step, asked, s.states())
		}
	})
	playBack(t, func(s *backScene) {
		s.answers(Switch, func(Call) (string, Outcome) {
			s.Must(s.Update(func(c *checkpoint.Cutover) error {
				return c.Steer(func(r *checkpoint.Cutover) error { return r.Resolve(true, s.Now()) })
			}))
			return "timeout", HookUnknown
		})
		if r := s.undo(); r.Step != checkpoint.CutoverDone || len(s.scene.called(Switch)) != 1 || s.Cutover().Step != checkpoint.CutoverRolledBack {
			t.Errorf("%s after the calls %v", r.Step, s.calls)
		}
	})
}

// The tables are returned in the end, although writes of their records fail, and each of them once.
func TestTablesAreReturnedOnce(t *testing.T) {
	playBack(t, func(s *backScene) {
		s.request()
		s.drive(s.backAt(checkpoint.CutoverWatching))
		generations := map[string]uint32{}
		for _, source := range plan().Tables {
			generations[source] = s.Table(source).Generation
		}
		lost := 0
		s.Store.OnSwap = func(_ context.Context, key string, execute func() bool) (bool, error) {
			if strings.HasSuffix(key, "Parts") && lost < 3 {
				lost++
				return false, errAway
			}
			return execute(), nil
		}
		r := s.finish()
		first := s.Table("Orders").Generation
		if r.Step != checkpoint.CutoverDone || lost < 3 || len(s.failed) == 0 || first <= generations["Orders"] || s.Table("Parts").Generation <= generations["Parts"] {
			t.Errorf("%s, %d lost; failed %q", r.Step, lost, s.failed)
		}
		for _, source := range plan().Tables {
			if state := s.Table(source); len(state.Gaps) != 1 || !state.NeedsLoad {
				t.Errorf("table %s: %+v", source, state.Gaps)
			}
		}
	})
}

// A delayed driver of the cutover must not halt a table that a rollback has returned.
func TestALateMarkHaltsNothing(t *testing.T) {
	playBack(t, func(s *backScene) {
		late := s.Cutover()
		if r := s.undo(); r.Step != checkpoint.CutoverDone {
			t.Fatal(r.Reason)
		}
		v := &drive{Driver: s.driver, settings: s.driver.Settings.orDefault()}
		err := v.mark(s.Ctx, late, func(h *checkpoint.Halt) { h.Switched = true })
		if state := s.Table("Orders"); !errors.Is(err, checkpoint.ErrMoved) || state.Halted() {
			t.Errorf("%v: %+v", err, state.Halt)
		}
	})
}

// Delayed drivers of a cancelled rollback neither stop the leaders for good, nor let them follow
// during the next rollback.
func TestDelayedDriversOfARollback(t *testing.T) {
	playBack(t, func(s *backScene) {
		s.request()
		s.drive(s.backAt(checkpoint.CutoverFence))
		cancel := func(c *checkpoint.Cutover) error {
			return c.Steer(func(r *checkpoint.Cutover) error { return r.Cancel("by an operator", s.Now()) })
		}
		c := s.Cutover()
		first := c.Undo()
		s.Must(s.Update(cancel))
		s.stays(s.finish(), "by an operator")
		v := &drive{Driver: s.driver, settings: s.driver.Settings.orDefault()}
		if err := v.stopLeaders(s.Ctx, first, s.Now()); !errors.Is(err, checkpoint.ErrMoved) || s.states() != "following following" {
			t.Errorf("a delayed goodbye: %v, %s", err, s.states())
		}
		s.driveFor(2 * backWait)
		s.request()
		s.drive(s.backAt(checkpoint.CutoverSwitching))
		first.Step = checkpoint.CutoverCancelling
		if err := v.followAgain(s.Ctx, first, s.Now()); !errors.Is(err, checkpoint.ErrMoved) || s.states() != "stopped stopped" {
			t.Errorf("a delayed end: %v, %s", err, s.states())
		}
	})
}

// A rollback needs all hooks, also those that the cutover does without. They are probed before.
func TestARollbackNeedsAllHooks(t *testing.T) {
	playBack(t, func(s *backScene) {
		s.driver.Missing = []string{FreezeWrites, UnfreezeWrites}
		var probed []string
		answer := s.hook
		s.hook = func(call Call) (string, Outcome) {
			if call.Probe {
				probed = append(probed, call.Direction+" "+call.Hook)
			}
			return answer(call)
		}
		s.undo()
		s.called(backFreeze, backSwitch)
		if want := []string{"back freeze_writes", "back switch", "back unfreeze_writes"}; !slices.Equal(probed, want) {
			t.Errorf("probed %v", probed)
		}
		probed = nil
		s.Must(s.driver.Probe(s.Ctx, checkpoint.Cutover{CutoverPlan: backPlan()}))
		if want := []string{"forward switch", "back freeze_writes", "back switch", "back unfreeze_writes"}; !slices.Equal(probed, want) {
			t.Errorf("before a cutover with a way back: %v", probed)
		}
	})
}
