package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// switched is a cutover with a way back whose application has switched.
func switched(t *testing.T) *checkpoint.Cutover {
	t.Helper()
	c := cutoverAt(t, checkpoint.CutoverWatching, func(p *checkpoint.CutoverPlan) {
		p.Group, p.Hash, p.KeepFallback, p.PolicyWait, p.Tries = "g", "h", true, 7*time.Minute, 3
	})
	c.WayBack = true
	return c
}

// undone is such a cutover whose rollback got as far as a step.
func undone(t *testing.T, step checkpoint.CutoverStep) *checkpoint.Cutover {
	t.Helper()
	c := switched(t)
	check(t, c.StartRollback(checkpoint.CutoverPlan{}, cutoverBegan))
	for c.Rollback.Step != step {
		check(t, c.Steer(func(r *checkpoint.Cutover) error {
			switch r.Step {
			case checkpoint.CutoverFreeze:
				if err := r.Frozen(cutoverBegan); err != nil {
					return err
				}
			case checkpoint.CutoverFence:
				r.GoneAt = cutoverBegan
			case checkpoint.CutoverSwitching:
				return r.Switch(step != checkpoint.CutoverCancelling, "the hook", cutoverBegan)
			}
			return r.Advance(cutoverBegan)
		}))
	}
	return c
}

// A rollback begins only after a switch whose way back lives, and when no other one is running. A
// refusal changes nothing.
func TestWhenARollbackBegins(t *testing.T) {
	for name, c := range map[string]struct {
		before func(c *checkpoint.Cutover)
		want   string // "": it begins
	}{
		"watching": {func(*checkpoint.Cutover) {}, ""},
		"fenced":   {func(c *checkpoint.Cutover) { c.Raised = map[string]uint64{"orders": 7} }, ""},
		"after a cancelled": {func(c *checkpoint.Cutover) {
			c.Rollback = &checkpoint.Cutover{Attempt: 2, Step: checkpoint.CutoverCancelled}
		}, ""},
		"no fence yet": {func(c *checkpoint.Cutover) {
			c.Raised, c.FencedAt = map[string]uint64{"orders": 7}, time.Time{}
		}, "late writes of the cutover are not rejected yet"},
		"no way back": {func(c *checkpoint.Cutover) { c.WayBack = false }, "without a way back"},
		"ended":       {func(c *checkpoint.Cutover) { c.FallbackEndedAt = cutoverBegan }, "an operator ended the way back"},
		"running":     {func(c *checkpoint.Cutover) { check(t, c.StartRollback(checkpoint.CutoverPlan{}, cutoverBegan)) }, "a rollback is running"},
		"before":      {func(c *checkpoint.Cutover) { c.Step = checkpoint.CutoverSwitching }, "it is at step switching"},
		"done":        {func(c *checkpoint.Cutover) { c.Step = checkpoint.CutoverDone }, "it is at step done"},
		"rolled back": {func(c *checkpoint.Cutover) { c.Step = checkpoint.CutoverRolledBack }, "it is at step rolled_back"},
		"never begun": {func(c *checkpoint.Cutover) { *c = checkpoint.Cutover{} }, "no cutover was begun"},
	} {
		record := switched(t)
		c.before(record)
		before := asText(t, *record)
		err := record.StartRollback(checkpoint.CutoverPlan{By: "ops"}, cutoverBegan.Add(time.Hour))
		switch {
		case c.want == "":
			if err != nil || record.Rollback.Step != checkpoint.CutoverChecks {
				t.Errorf("%s: %v", name, err)
			}
		case !errors.Is(err, checkpoint.ErrCutover) || !strings.Contains(err.Error(), c.want) || asText(t, *record) != before:
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A rollback moves what the cutover has moved, once, and its plan has the rest.
func TestThePlanOfARollback(t *testing.T) {
	c := switched(t)
	p := checkpoint.CutoverPlan{By: "ops", Version: "2", After: 8, FreezeDeadline: time.Hour, Tables: []string{"Other"}, Overrides: []checkpoint.CutoverOverride{{Gate: "carried"}}}
	check(t, c.StartRollback(p, cutoverBegan.Add(time.Hour)))
	r := c.Rollback
	want := checkpoint.CutoverPlan{By: "ops", Version: "2", After: 8, FreezeDeadline: time.Hour, Overrides: p.Overrides, Direction: checkpoint.Back, Group: "g", Hash: "h", Tables: c.Tables, Targets: c.Targets,
		Approved: true, Tries: 1, PolicyWait: 7 * time.Minute}
	if fmt.Sprintf("%+v", r.CutoverPlan) != fmt.Sprintf("%+v", want) || !r.BegunAt.Equal(cutoverBegan.Add(time.Hour)) || c.Step != checkpoint.CutoverWatching {
		t.Errorf("%+v", r.CutoverPlan)
	}
	if r.Timeline[0].Text != "requested by ops" || r.Timeline[1].Text != "checking the gates" || len(r.Timeline) != 2 {
		t.Errorf("%+v", r.Timeline)
	}
	if checkpoint.Forward.String() != "forward" || checkpoint.Back.String() != "back" {
		t.Error("hooks get other words for the directions")
	}
}

// Every attempt of a group has a higher number than all before, in both directions. So a wrapper that
// keeps one token refuses each delayed call.
func TestTokensRiseInBothDirections(t *testing.T) {
	c := switched(t)
	last := c.Token()
	rises := func(token string) {
		t.Helper()
		var a, b [3]int
		_, _ = fmt.Sscanf(last, "%d.%d.%d", &a[0], &a[1], &a[2])
		_, _ = fmt.Sscanf(token, "%d.%d.%d", &b[0], &b[1], &b[2])
		if slices.Compare(a[:], b[:]) >= 0 {
			t.Errorf("token %s follows %s", token, last)
		}
		last = token
	}
	begin := func(after uint32) {
		t.Helper()
		check(t, c.StartRollback(checkpoint.CutoverPlan{After: after}, cutoverBegan))
		rises(c.Rollback.Token())
	}
	begin(0)
	check(t, c.Steer(func(r *checkpoint.Cutover) error { return r.Cancel("no", cutoverBegan) }))
	begin(5) // another group has used the numbers before
	if c.Rollback.Attempt != 6 {
		t.Errorf("attempt %d", c.Rollback.Attempt)
	}
	check(t, c.Steer(func(r *checkpoint.Cutover) error { return r.Cancel("no", cutoverBegan) }))
	begin(0)
	if last := (checkpoint.Cutovers{*c}).Last(); last != 7 {
		t.Errorf("the last attempt of all groups is %d", last)
	}
	c.Rollback.Step, c.Step = checkpoint.CutoverDone, checkpoint.CutoverRolledBack
	check(t, c.Start(cutoverPlan(), cutoverBegan))
	rises(c.Token())
	if c.Attempt != 8 || c.Rollback != nil || c.WayBack || c.Direction != checkpoint.Forward {
		t.Errorf("attempt %d: %+v", c.Attempt, c)
	}
}

// Which attempt a driver and an operator find, and on which side the application may write, at each
// step of a rollback.
func TestWhereTheApplicationIs(t *testing.T) {
	for _, x := range []struct {
		step                  checkpoint.CutoverStep
		running, safe, undoes bool // undoes: the latest attempt is the rollback
		outer                 checkpoint.CutoverStep
	}{
		{checkpoint.CutoverChecks, true, true, true, checkpoint.CutoverWatching},
		{checkpoint.CutoverFreeze, true, false, true, checkpoint.CutoverWatching},
		{checkpoint.CutoverDrain, true, false, true, checkpoint.CutoverWatching},
		{checkpoint.CutoverVerify, true, false, true, checkpoint.CutoverWatching},
		{checkpoint.CutoverFence, true, false, true, checkpoint.CutoverWatching},
		{checkpoint.CutoverSwitching, true, false, true, checkpoint.CutoverWatching},
		{checkpoint.CutoverCancelling, true, false, true, checkpoint.CutoverWatching},
		{checkpoint.CutoverWatching, true, false, true, checkpoint.CutoverRolledBack},
	} {
		c := undone(t, x.step)
		c.Row = "g"
		current, latest := c.Current(), c.Latest()
		if c.RollingBack() != x.running || c.SafeToWrite() != x.safe || c.Step != x.outer || (latest.Direction == checkpoint.Back) != x.undoes || current.Step != x.step || current.Row != "g" {
			t.Errorf("%s: %+v; safe %t, latest %s", x.step, current.Step, c.SafeToWrite(), latest.Direction)
		}
		if c.HasFallback() != (x.outer == checkpoint.CutoverWatching) {
			t.Errorf("%s: fallback %t", x.step, c.HasFallback())
		}
	}
	c := switched(t)
	if at := c.Current(); at.Direction == checkpoint.Back || !c.SafeToWrite() || c.RollingBack() || c.Undo().Attempt != 0 {
		t.Errorf("without a rollback: %+v", at)
	}
	c = undone(t, checkpoint.CutoverCancelling)
	check(t, c.Steer(func(r *checkpoint.Cutover) error {
		return errors.Join(r.Unfrozen(cutoverBegan), r.Cancelled(cutoverBegan))
	}))
	if latest := c.Latest(); c.RollingBack() || !c.SafeToWrite() || latest.Direction == checkpoint.Back || !c.HasFallback() {
		t.Errorf("after a cancel: latest %s, safe %t", latest.Direction, c.SafeToWrite())
	}
}

// The switch of a rollback ends the cutover in the same write, and its time is the end of both.
func TestTheSwitchOfARollbackIsOneWrite(t *testing.T) {
	ctx := context.Background()
	store := &checkpointtest.Memory{}
	l := openOn(t, ctx, store, "w", lease)
	_, err := l.UpdateCutover(ctx, "g", func(c *checkpoint.Cutover) error { *c = *undone(t, checkpoint.CutoverSwitching); return nil })
	check(t, err)
	c, err := l.Cutover(ctx, "g")
	check(t, err)
	writes, at := 0, cutoverBegan.Add(time.Hour)
	store.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) { writes++; return execute(), nil }
	r, err := l.InStep(ctx, c.Current(), func(r *checkpoint.Cutover) error { return r.Switch(true, "the hook", at) })
	check(t, err)
	c, err = l.Cutover(ctx, "g")
	check(t, err)
	if writes != 1 || c.Step != checkpoint.CutoverRolledBack || !c.EndedAt.Equal(at) || !c.StepAt.Equal(at) || r.Step != checkpoint.CutoverWatching || r.Row != "g" || !r.SwitchedAt.Equal(at) {
		t.Errorf("%d writes: %s ended at %v, rollback %s of %q", writes, c.Step, c.EndedAt, r.Step, r.Row)
	}
	if last := c.Timeline[len(c.Timeline)-1]; last.Text != "rolled back by attempt 2" || last.Step != "rolled_back" {
		t.Errorf("%+v", last)
	}
	// The tables are not returned yet, so another cutover would never get them.
	if err := c.Start(cutoverPlan(), at); !errors.Is(err, checkpoint.ErrCutover) {
		t.Errorf("a cutover begins before the rollback has returned the tables: %v", err)
	}
	r, err = l.InStep(ctx, c.Current(), func(r *checkpoint.Cutover) error { return r.Returned(at.Add(time.Minute)) })
	check(t, err)
	c, err = l.Cutover(ctx, "g")
	check(t, err)
	if c.RollingBack() || r.Step != checkpoint.CutoverDone || !r.EndedAt.Equal(at.Add(time.Minute)) || !c.EndedAt.Equal(at) || c.SafeToWrite() || c.Latest().Attempt != 2 {
		t.Errorf("returned: %s at %v", r.Step, r.EndedAt)
	}
	check(t, c.Start(cutoverPlan(), at))
}

// Only the rollback returns tables, and only after its switch.
func TestWhatIsReturned(t *testing.T) {
	for name, c := range map[string]checkpoint.Cutover{
		"a cutover":       {Attempt: 1, Step: checkpoint.CutoverWatching},
		"before a switch": {Attempt: 2, Step: checkpoint.CutoverSwitching, CutoverPlan: checkpoint.CutoverPlan{Direction: checkpoint.Back}},
	} {
		if err := c.Returned(cutoverBegan); !errors.Is(err, checkpoint.ErrCutover) || !c.EndedAt.IsZero() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The record of the cutover says once that a rollback was cancelled, and why. It takes over that the
// policies deny writes by the statements of the rollback.
func TestACancelledRollbackIsNoted(t *testing.T) {
	c := undone(t, checkpoint.CutoverFence)
	lines := len(c.Timeline)
	at := cutoverBegan.Add(time.Hour)
	step := func(change func(r *checkpoint.Cutover) error) { t.Helper(); check(t, c.Steer(change)) }
	step(func(r *checkpoint.Cutover) error { return r.Cancel("rows differ", at) })
	if len(c.Timeline) != lines {
		t.Error("it is noted before the application writes again")
	}
	step(func(r *checkpoint.Cutover) error { r.Denial.Left = true; return r.Unfrozen(at) })
	step(func(r *checkpoint.Cutover) error { return r.Cancelled(at.Add(time.Second)) })
	if c.Step != checkpoint.CutoverWatching || !c.EndedAt.IsZero() || len(c.Timeline) != lines+1 || c.Timeline[lines].Text != "rollback attempt 2 was cancelled: rows differ" || !c.Timeline[lines].At.Equal(at.Add(time.Second)) {
		t.Errorf("%s: %+v", c.Step, c.Timeline)
	}
	if c.Denial.Again != 2 {
		t.Errorf("the policies deny writes by attempt %d", c.Denial.Again)
	}
	c.Note(at, "something else")
	undo := c.Undo()
	c.Rollback = &undo
	ctx := context.Background()
	l := openOn(t, ctx, &checkpointtest.Memory{}, "w", lease)
	_, err := l.UpdateCutover(ctx, "", func(now *checkpoint.Cutover) error { *now = *c; return nil })
	check(t, err)
	_, err = l.InAttempt(ctx, undo, func(r *checkpoint.Cutover) error {
		r.Heard(checkpoint.CutoverHook{Name: "unfreeze_writes"})
		return nil
	})
	check(t, err)
	if now, err := l.Cutover(ctx, ""); err != nil || len(now.Timeline) != lines+2 || len(now.Rollback.Hooks) != 1 {
		t.Errorf("a later answer of a hook: %+v, %v", now.Timeline, err)
	}
	// The next cutover has statements of its own.
	c.Step, c.Denial.Left = checkpoint.CutoverRolledBack, true
	check(t, c.Start(cutoverPlan(), at))
	if c.Denial.Again != 0 || !c.Denial.Left {
		t.Errorf("%+v", c.Denial)
	}
}

// A change belongs to one attempt and step of one direction.
func TestChangesOfARollbackAreItsOwn(t *testing.T) {
	ctx := context.Background()
	l := openOn(t, ctx, &checkpointtest.Memory{}, "w", lease)
	_, err := l.UpdateCutover(ctx, "g", func(c *checkpoint.Cutover) error { *c = *undone(t, checkpoint.CutoverDrain); return nil })
	check(t, err)
	forward, err := l.Cutover(ctx, "g")
	check(t, err)
	back := forward.Current()
	other := back
	other.Attempt = 9
	earlier := back
	earlier.Step = checkpoint.CutoverFreeze
	trouble := func(text string) func(c *checkpoint.Cutover) error {
		return func(c *checkpoint.Cutover) error { c.Trouble = text; return nil }
	}
	for name, c := range map[string]struct {
		of       checkpoint.Cutover
		in       func(context.Context, checkpoint.Cutover, func(*checkpoint.Cutover) error) (checkpoint.Cutover, error)
		is, both bool // whether it changes the record; whether the cutover's own part
	}{
		"the rollback, in its step": {back, l.InStep, true, false}, "the cutover, in its step": {forward, l.InStep, true, true},
		"the rollback, in any step": {earlier, l.InAttempt, true, false}, "another step": {earlier, l.InStep, false, false},
		"another attempt": {other, l.InAttempt, false, false},
	} {
		got, err := c.in(ctx, c.of, trouble(name))
		now, readErr := l.Cutover(ctx, "g")
		check(t, readErr)
		again, readErr := l.Attempt(ctx, c.of)
		check(t, readErr)
		switch {
		case !c.is:
			if !errors.Is(err, checkpoint.ErrMoved) {
				t.Errorf("%s: %v", name, err)
			}
		case err != nil || (now.Trouble == name) != c.both || (now.Rollback.Trouble == name) == c.both || got.Trouble != name || got.Attempt != c.of.Attempt || again.Trouble != name:
			t.Errorf("%s: %q and %q, %v", name, now.Trouble, now.Rollback.Trouble, err)
		}
	}
	_, err = l.UpdateCutover(ctx, "g", func(c *checkpoint.Cutover) error { c.Rollback = nil; return nil })
	check(t, err)
	if _, err = l.InAttempt(ctx, back, trouble("x")); !errors.Is(err, checkpoint.ErrMoved) {
		t.Errorf("without a rollback: %v", err)
	}
}

// An operator steers the attempt that needs one.
func TestWhichAttemptIsSteered(t *testing.T) {
	c := undone(t, checkpoint.CutoverSwitching)
	check(t, c.Steer(func(r *checkpoint.Cutover) error { return r.Resolve(true, cutoverBegan) }))
	if c.Rollback.Answer != "yes" || c.Answer != "" {
		t.Errorf("answers %q and %q", c.Answer, c.Rollback.Answer)
	}
	if err := c.Steer(func(r *checkpoint.Cutover) error { return r.Cancel("no", cutoverBegan) }); !errors.Is(err, checkpoint.ErrCutover) || c.Rollback.Step != checkpoint.CutoverSwitching {
		t.Errorf("it is cancelled during the switch: %v", err)
	}
	c = switched(t)
	check(t, c.Steer(func(c *checkpoint.Cutover) error { c.Trouble = "x"; return nil }))
	if c.Trouble != "x" {
		t.Error("the cutover is not steered")
	}
}

// The way back ends once, not during a rollback, and changes of the source count as late from then
// on.
func TestTheWayBackEnds(t *testing.T) {
	at := cutoverBegan.Add(time.Hour)
	c := switched(t)
	if from := c.StraysFrom(); !from.Equal(c.FrozenAt) {
		t.Errorf("strays from %v", from)
	}
	check(t, c.EndFallback(at))
	check(t, c.EndFallback(at.Add(time.Hour)))
	if !c.FallbackEndedAt.Equal(at) || c.HasFallback() || c.Timeline[len(c.Timeline)-1].Text != "the way back has ended: DynamoDB no longer follows" || !c.StraysFrom().Equal(at) {
		t.Errorf("%v: %+v", c.FallbackEndedAt, c.Timeline)
	}
	for name, c := range map[string]*checkpoint.Cutover{"rolling back": undone(t, checkpoint.CutoverChecks), "without": cutoverAt(t, checkpoint.CutoverWatching), "before": cutoverAt(t, checkpoint.CutoverDrain)} {
		if err := c.EndFallback(at); !errors.Is(err, checkpoint.ErrCutover) || !c.FallbackEndedAt.IsZero() {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The leaders stop for a rollback, and follow again once after it was cancelled. A delayed driver
// changes nothing: its leaders would never follow again, or would write during the next switch.
func TestLeadersObeyTheLastRollback(t *testing.T) {
	f := checkpoint.Fallback{Attempt: 1, State: checkpoint.FallbackFollowing}
	for i, x := range []struct {
		do     func(cutover, rollback uint32)
		by, of uint32 // cutover, rollback
		want   checkpoint.FallbackState
	}{
		{f.StopFor, 9, 2, checkpoint.FallbackFollowing},     // of another cutover
		{f.StopFor, 1, 2, checkpoint.FallbackStopping},      //
		{f.StopFor, 1, 2, checkpoint.FallbackStopping},      // repeated
		{f.FollowAfter, 9, 2, checkpoint.FallbackStopping},  // of another cutover
		{f.FollowAfter, 1, 2, checkpoint.FallbackFollowing}, //
		{f.StopFor, 1, 2, checkpoint.FallbackFollowing},     // delayed
		{f.StopFor, 1, 3, checkpoint.FallbackStopping},      //
		{f.FollowAfter, 1, 2, checkpoint.FallbackStopping},  // delayed
	} {
		x.do(x.by, x.of)
		if f.State != x.want {
			t.Errorf("%d: %s, want %s", i, f.State, x.want)
		}
	}
	f.State = checkpoint.FallbackStopped
	if f.FollowAfter(1, 3); f.State != checkpoint.FallbackFollowing {
		t.Errorf("after the goodbye: %s", f.State)
	}
	f.State = checkpoint.FallbackStopped // an operator ended the way back
	if f.FollowAfter(1, 3); f.State != checkpoint.FallbackStopped {
		t.Errorf("a delayed driver lets them follow after the end: %s", f.State)
	}
	for _, lost := range []checkpoint.FallbackState{checkpoint.FallbackGap, checkpoint.FallbackStandby} {
		g := checkpoint.Fallback{Attempt: 1, State: lost}
		g.StopFor(1, 2)
		if g.FollowAfter(1, 2); g.State != lost {
			t.Errorf("%s becomes %s", lost, g.State)
		}
	}
}

// A rollback returns a table in a new generation, which needs a load of all rows, also with `on_gap:
// wait`. A repeated call changes nothing, and not after that load either.
func TestReturnOfATable(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, l := p.worker("a")
		create(t, ctx, l, shard("s", ""))
		_, err := l.UpdateTable(ctx, source, func(s *checkpoint.TableState) error {
			s.Base, s.Load = 1, checkpoint.Load{Generation: 1, DoneAt: begin}
			s.Halt = checkpoint.Halt{Attempt: 4, Over: 3, Near: 4, On: true, Switched: true, Done: true}
			return nil
		})
		check(t, err)
		check(t, l.Return(ctx, source, 5))
		s := table(t, ctx, l)
		if s.Halted() || s.FreezeNear() || s.Generation <= 1 || s.Adopted != s.Generation || !s.NeedsLoad || s.Kind != checkpoint.KindRolledBack || !s.MadeByUs || !strings.Contains(s.Reason, "by attempt 5") {
			t.Errorf("%+v", s)
		}
		if asks, waits := s.AsksItself(false, false); !asks {
			t.Errorf("it asks for no load: %q", waits)
		}
		if s.NeedsNoSweep() || !s.MayHoldOlderRows() {
			t.Error("the load is not swept")
		}
		if row(t, ctx, l, "s").Generation != s.Generation {
			t.Error("the shard is read in the former generation")
		}
		for _, attempt := range []uint32{4, 5} {
			if err := s.HaltFor(attempt); err == nil {
				t.Errorf("attempt %d halts the table again", attempt)
			}
		}
		check(t, l.Return(ctx, source, 5))
		if again := table(t, ctx, l); again.Generation != s.Generation || len(again.Gaps) != 1 || again.GapCount != 1 {
			t.Errorf("a repeated call: %+v", again)
		}
		s, err = l.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { s.NeedsLoad, s.Base = false, s.Generation; return nil })
		check(t, err)
		check(t, l.Return(ctx, source, 5))
		if again := table(t, ctx, l); again.NeedsLoad || again.Generation != s.Generation {
			t.Errorf("a delayed call after the load: %+v", again)
		}
		check(t, s.HaltFor(6))
		check(t, l.Return(ctx, source, 7)) // the watch of the cutover had not marked the table
		if again := table(t, ctx, l); again.Generation == s.Generation || !again.NeedsLoad {
			t.Errorf("after the next rollback: %+v", again)
		}
		target := checkpoint.Target{Halt: checkpoint.Halt{Attempt: 4, On: true}}
		target.Return(5)
		if target.Halted() || target.HaltFor(5) == nil || target.HaltFor(6) != nil {
			t.Errorf("target %+v", target.Halt)
		}
	})
}

// Another process has raised the generation while a driver returns the table. The driver tries again,
// and the table is returned in the end.
func TestReturnBesideARaise(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, l := p.worker("a")
		create(t, ctx, l)
		_, err := l.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { s.Base, s.Halt.Switched = 1, true; return nil })
		check(t, err)
		raced := false
		p.store.OnSwap = func(ctx context.Context, key string, execute func() bool) (bool, error) {
			if !raced && strings.HasSuffix(key, source) {
				raced = true
				_, other := p.worker("b")
				_, err := other.Raise(ctx, source, 1, checkpoint.DeclaredGap{Kind: checkpoint.KindTargetLost, Reason: "lost"}, nil)
				check(t, err)
			}
			return execute(), nil
		}
		if err := l.Return(ctx, source, 5); !errors.Is(err, checkpoint.ErrConflict) || !raced {
			t.Errorf("beside a raise: %v", err)
		}
		if s := table(t, ctx, l); !s.Halted() {
			t.Error("it is returned in the other generation")
		}
		check(t, l.Return(ctx, source, 5))
		if s := table(t, ctx, l); s.Halted() || !s.MadeByUs || !s.NeedsLoad {
			t.Errorf("%+v", s)
		}
	})
}
