package cutover

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// slow is a source whose descriptions fail after so long, if that is not 0.
type slow struct {
	Source
	takes time.Duration
	asked int
}

func (s *slow) Describe(ctx context.Context, table string) (backfill.Description, error) {
	s.asked++
	if s.takes > 0 {
		return backfill.Description{}, errors.Join(errAway, task.Sleep(ctx, s.takes))
	}
	return s.Source.Describe(ctx, table)
}

// The source is asked for its time every twenty seconds and not in every pass, for its rate is
// limited per account; and a source that does not answer keeps no deadline from passing.
func TestTheSourceIsAskedNowAndThen(t *testing.T) {
	playScene(t, func(s *scene) {
		p := plan()
		p.Approved = false
		s.start(p)
		source := &slow{Source: s.Source}
		s.driver.Source = source
		s.driveFor(10 * time.Minute)
		if source.asked < 20 || source.asked > 31 {
			t.Errorf("the source was asked %d times in ten minutes", source.asked)
		}
		s.Must(s.Update(func(c *checkpoint.Cutover) error { return c.Approve(s.Now()) }))
		s.Source.Blind = true
		s.drive(at(checkpoint.CutoverFreeze))
		began := s.Now()
		source.asked = 0
		if s.driveFor(5 * time.Minute); source.asked > 15+2 {
			t.Errorf("the source was asked %d times in five minutes of a drain", source.asked)
		}
		source.takes, s.failed = time.Minute, nil
		if s.driveFor(75 * time.Second); len(s.failed) > 0 { // while it is asked
			t.Errorf("that the process ends is a failure: %q", s.failed)
		}
		c := s.drive(settled)
		if took := s.Now().Sub(began); c.Step != checkpoint.CutoverCancelled || took < 10*time.Minute || took > 16*time.Minute {
			t.Errorf("%s after %s: %s", c.Step, took, c.Reason)
		}
	})
}

// unheard is a driver that never heard the source's time, of a host whose clock is ahead.
func (s *scene) unheard(skew time.Duration) (drive func(until func(c checkpoint.Cutover) bool) checkpoint.Cutover) {
	s.Source.Fail = func(string) error { return errAway }
	p := s.World.NewProcess("unheard")
	p.Skew(skew)
	ledger, err := checkpoint.Open(p.Context(), s.Store, "p", checkpoint.Options{Worker: "unheard", ID: "ledger"})
	s.Must(err)
	s.driver.Ledger = ledger
	return func(until func(c checkpoint.Cutover) bool) checkpoint.Cutover {
		ctx, cancel := context.WithCancel(p.Context())
		defer cancel()
		s.World.After(20*time.Minute, cancel)
		done := s.World.NewEvent()
		p.Go("drive", func() {
			_ = s.driver.Run(ctx, until)
			done.Set()
		})
		s.Must(done.Wait(s.Ctx))
		return s.Cutover()
	}
}

// A driver that never heard the source's time counts a deadline by its monotonic clock since it saw
// the step: the application is not frozen for ever because the source is away, nor let go early
// because a clock is wrong.
func TestADeadlinePassesWithoutTheSource(t *testing.T) {
	for _, skew := range []time.Duration{-5 * time.Hour, 5 * time.Hour} {
		playScene(t, func(s *scene) {
			s.start(plan())
			s.drive(at(checkpoint.CutoverFreeze))
			began := s.Now()
			c := s.unheard(skew)(settled)
			if took := s.Now().Sub(began); c.Step != checkpoint.CutoverCancelled || !strings.HasPrefix(c.Reason, "the deadline of the freeze has passed in step drain") || took < 10*time.Minute || took > 12*time.Minute {
				t.Errorf("%s after %s: %s", c.Step, took, c.Reason)
			}
			if s.calls[len(s.calls)-1] != "unfreeze_writes 1.8.2 cancelling" || c.UnfrozenAt.IsZero() || !s.tablesGoOn() {
				t.Errorf("calls %v, unfrozen at %v", s.calls, c.UnfrozenAt)
			}
		})
	}
}

// A switch is called, and its answer counts, whether the source tells its time or not: the
// application stands still meanwhile.
func TestASwitchNeedsNoSource(t *testing.T) {
	playScene(t, func(s *scene) {
		s.start(plan())
		s.drive(at(checkpoint.CutoverFence))
		if c := s.unheard(0)(settled); c.Step != checkpoint.CutoverWatching || len(s.called(Switch)) != 1 {
			t.Errorf("%s after %v", c.Step, s.calls)
		}
	})
}

// A deadline counts from the first call, not from when a driver took over: the application would
// be frozen for as long again with each driver that ends.
func TestADeadlineCountsAcrossDrivers(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Source.Blind = true
		s.start(plan())
		s.drive(at(checkpoint.CutoverFreeze))
		began := s.Now()
		s.Sleep(8 * time.Minute)
		s.driver.Ledger = s.Open("next")
		c := s.drive(settled)
		if took := s.Now().Sub(began); c.Step != checkpoint.CutoverCancelled || took > 12*time.Minute {
			t.Errorf("%s after %s: %s", c.Step, took, c.Reason)
		}
	})
}

// D15: a try has one deadline, which is in the record before the first call of the hook that freezes.
// Every call gets the same one, and what is left of it. Steps that take most of it one after the other
// do not end in time.
func TestH145_ATryHasOneDeadline(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Source.Blind, s.driver.Settings.Pass = true, 10*time.Second
		s.World.After(8*time.Minute, func() { s.Source.Blind = false })
		verify := s.final
		s.final = func(source string) checkpoint.VerifyResult { s.Sleep(4 * time.Minute); return verify(source) }
		deadline, n := time.Time{}, 0
		s.answers(FreezeWrites, func(call Call) (string, Outcome) {
			c := s.Cutover()
			if deadline.IsZero() {
				deadline = c.Deadline
			}
			if n++; !call.Deadline.Equal(deadline) || !c.Deadline.Equal(deadline) || deadline.Sub(c.FreezeBegunAt) != 11*time.Minute || call.Left <= 0 || call.Left > deadline.Sub(s.Now())+2*time.Second {
				t.Errorf("call %d has deadline %v, in %s; the record has %v", n, call.Deadline, call.Left, c.Deadline)
			}
			return "", map[bool]Outcome{true: HookUnknown, false: HookDone}[n < 3]
		})
		s.answers(UnfreezeWrites, func(call Call) (string, Outcome) {
			if !call.Deadline.Equal(deadline) || call.Left != 0 {
				t.Errorf("the application is let go with deadline %v, in %s", call.Deadline, call.Left)
			}
			return "", HookDone
		})
		c := s.play(plan())
		if took := c.UnfrozenAt.Sub(c.FreezeBegunAt); c.Step != checkpoint.CutoverCancelled || n != 3 || took < 11*time.Minute || took > 12*time.Minute {
			t.Errorf("%s (%s), %s after the freeze, %d calls", c.Step, c.Reason, took, n)
		}
	})
}

// No call of the hook that freezes outlasts the time that the hook may take.
func TestACallOfTheFreezeEndsInTime(t *testing.T) {
	playScene(t, func(s *scene) {
		s.takes = time.Hour
		s.silent(FreezeWrites)
		s.answers(UnfreezeWrites, func(Call) (string, Outcome) { return "", HookDone })
		p := plan()
		p.Tries = 3
		s.start(p)
		s.drive(at(checkpoint.CutoverFreeze))
		c := s.drive(func(c checkpoint.Cutover) bool { return c.Step == checkpoint.CutoverCancelling })
		if took := c.Hooks[0].Ended.Sub(c.Hooks[0].Began); took > time.Minute || c.NextTry || !strings.HasPrefix(c.Reason, "freeze took more than 1m") {
			t.Errorf("the call took %s: %s", took, c.Reason)
		}
	})
}

// All times of the record are the source's, however wrong the clock of the driver is: they are held
// against times of changes.
func TestTimesAreTheSources(t *testing.T) {
	for _, skew := range []time.Duration{-3 * time.Hour, 3 * time.Hour} {
		playScene(t, func(s *scene) {
			p := s.World.NewProcess("driver")
			p.Skew(skew)
			began := s.Now()
			s.start(plan())
			done := s.World.NewEvent()
			p.Go("drive", func() {
				_ = s.driver.Run(p.Context(), settled)
				done.Set()
			})
			s.Must(done.Wait(s.Ctx))
			c := s.Cutover()
			for name, at := range map[string]time.Time{"begun": c.BegunAt, "freeze begun": c.FreezeBegunAt, "frozen": c.FrozenAt, "gone": c.GoneAt, "switched": c.SwitchedAt, "step": c.StepAt} {
				if at.Before(began) || at.After(s.Now()) {
					t.Errorf("a driver whose clock is %s ahead: %s at %v, driven from %v to %v", skew, name, at, began, s.Now())
				}
			}
			if c.Step != checkpoint.CutoverWatching || c.Hooks[0].Began.Before(began) || c.Hooks[1].Ended.After(s.Now()) {
				t.Errorf("%s: %s, %+v", c.Step, c.Reason, c.Hooks)
			}
		})
	}
}

// timeless is a source whose descriptions have no time.
type timeless struct{ Source }

func (s timeless) Describe(ctx context.Context, table string) (backfill.Description, error) {
	d, err := s.Source.Describe(ctx, table)
	d.At = time.Time{}
	return d, err
}

// Nothing is decided by a time that the source does not give.
func TestTheSourceTellsTheTime(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Source.Fail = func(string) error { return errAway }
		unheard, err := checkpoint.Open(s.Ctx, s.Store, "p", checkpoint.Options{Worker: "deaf", ID: "ledger"})
		s.Must(err)
		s.driver.Ledger = unheard
		s.start(plan())
		got := s.driveFor(time.Minute)
		if got.Step != checkpoint.CutoverRequested || len(s.failed) == 0 || !strings.Contains(s.failed[0], "the source's answer has no Date header") {
			t.Errorf("%s: %q", got.Step, s.failed)
		}
		s.Source.Fail = nil
		s.answers(FreezeWrites, func(Call) (string, Outcome) {
			s.Source.Fail = func(string) error { return errAway }
			return "", HookDone
		})
		got = s.drive(func(c checkpoint.Cutover) bool { return len(s.calls) > 1 })
		if len(s.calls) < 2 || !got.FrozenAt.IsZero() || !strings.HasPrefix(got.Reason, "the moment for a short freeze has passed: canaries cannot be written to a source") {
			t.Errorf("it is frozen at %v, by a time that nobody told; calls %v; %s: %s", got.FrozenAt, s.calls, got.Step, got.Reason)
		}
		s.Source.Fail, s.hook = nil, func(Call) (string, Outcome) { return "", HookDone }
		s.drive(settled)
		s.start(plan())
		s.drive(s.lastCheck)
		s.driver.Source = timeless{s.Source}
		if got = s.driveFor(20 * time.Second); !got.FrozenAt.IsZero() || got.Step != checkpoint.CutoverFreeze {
			t.Errorf("it is frozen at %v, by an answer without a time", got.FrozenAt)
		}
	})
}
