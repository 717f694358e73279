package checkpoint_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

var cutoverBegan = time.Date(2026, 11, 2, 1, 0, 0, 0, time.UTC)

func cutoverPlan() checkpoint.CutoverPlan {
	return checkpoint.CutoverPlan{
		Tables: []string{"Orders"}, Targets: []string{"orders"}, Approved: true, WatchFor: time.Hour,
		FreezeWithin: time.Minute, FreezeDeadline: 4 * time.Minute,
	}
}

// cutoverAt is an attempt that got as far as a step.
func cutoverAt(t *testing.T, step checkpoint.CutoverStep, adjust ...func(*checkpoint.CutoverPlan)) *checkpoint.Cutover {
	t.Helper()
	plan := cutoverPlan()
	for _, f := range adjust {
		f(&plan)
	}
	c := &checkpoint.Cutover{}
	check(t, c.Start(plan, cutoverBegan))
	for c.Step != step {
		switch c.Step {
		case checkpoint.CutoverFreeze:
			check(t, c.Frozen(cutoverBegan))
		case checkpoint.CutoverFence:
			c.FencedAt = cutoverBegan
		case checkpoint.CutoverSwitching:
			check(t, c.Switch(step != checkpoint.CutoverCancelling, "the hook", cutoverBegan))
			continue
		case checkpoint.CutoverWatching:
			check(t, c.Watched(cutoverBegan.Add(time.Hour)))
			continue
		}
		check(t, c.Advance(cutoverBegan))
	}
	return c
}

// A cutover goes its way step by step, and skips none: not the freeze, and not the fence.
func TestCutoverGoesStepByStep(t *testing.T) {
	c := cutoverAt(t, checkpoint.CutoverDone)
	var steps []string
	for _, e := range c.Timeline {
		if n := len(steps); n == 0 || steps[n-1] != e.Step {
			steps = append(steps, e.Step)
		}
	}
	want := []string{"requested", "checks", "freeze", "drain", "verify", "fence", "switching", "watching", "done"}
	if len(steps) != len(want) {
		t.Fatal(steps)
	}
	for i := range want {
		if steps[i] != want[i] {
			t.Fatalf("step %d is %s, wanted %s", i, steps[i], want[i])
		}
	}
	if err := c.Start(cutoverPlan(), cutoverBegan); !errors.Is(err, checkpoint.ErrCutover) {
		t.Errorf("after the end another attempt begins: %v", err)
	}
	for _, step := range []checkpoint.CutoverStep{checkpoint.CutoverFreeze, checkpoint.CutoverFence} {
		if err := cutoverAt(t, step).Advance(cutoverBegan); !errors.Is(err, checkpoint.ErrCutover) {
			t.Errorf("%s is skipped: %v", step, err)
		}
	}
	if c := cutoverAt(t, checkpoint.CutoverRehearsed, func(p *checkpoint.CutoverPlan) { p.Rehearse = true }); !c.FreezeBegunAt.IsZero() || !c.Step.Over() {
		t.Error("a rehearsal froze the application", c)
	}
}

// H92, H109: a cancel leads through the unfreeze as soon as a freeze may have taken place, and there
// is none once the switch may have.
func TestH92_H109_CutoverCancels(t *testing.T) {
	for step, want := range map[checkpoint.CutoverStep]checkpoint.CutoverStep{
		checkpoint.CutoverRequested: checkpoint.CutoverCancelled, checkpoint.CutoverChecks: checkpoint.CutoverCancelled,
		checkpoint.CutoverFreeze: checkpoint.CutoverCancelling, checkpoint.CutoverDrain: checkpoint.CutoverCancelling,
		checkpoint.CutoverVerify: checkpoint.CutoverCancelling, checkpoint.CutoverFence: checkpoint.CutoverCancelling,
		checkpoint.CutoverSwitching: "", checkpoint.CutoverWatching: "", checkpoint.CutoverDone: "",
	} {
		c := cutoverAt(t, step)
		switch err := c.Cancel("why", cutoverBegan); {
		case want == "" && (!errors.Is(err, checkpoint.ErrCutover) || c.Step != step):
			t.Errorf("%s is cancelled: %v", step, err)
		case want != "" && (err != nil || c.Step != want || c.Reason != "why"):
			t.Errorf("%s leads to %s: %v", step, c.Step, err)
		}
		if err := c.Cancel("again", cutoverBegan); want != "" && (err != nil || c.Reason != "why") {
			t.Errorf("a second cancel: %v, %s", err, c.Reason)
		}
	}
	c := cutoverAt(t, checkpoint.CutoverCancelling)
	if err := c.Cancelled(cutoverBegan); err == nil {
		t.Error("a frozen application is left behind")
	}
	check(t, c.Unfrozen(cutoverBegan.Add(time.Minute)))
	check(t, c.Cancelled(cutoverBegan.Add(time.Hour)))
	if got := c.FrozenFor(cutoverBegan.Add(2 * time.Hour)); got != time.Minute || !c.Step.Over() {
		t.Errorf("frozen for %s in %s", got, c.Step)
	}
	check(t, c.Start(cutoverPlan(), cutoverBegan))
	if c.Attempt != 2 || !c.FreezeBegunAt.IsZero() || c.Reason != "" {
		t.Error("the next attempt goes on with the former one's", c)
	}
}

// H109: only an answer leads on from the switch: no deadline, and an operator's is noted for whoever
// drives.
func TestH109_TheSwitchIsAnswered(t *testing.T) {
	c := cutoverAt(t, checkpoint.CutoverSwitching)
	if limit, over := c.Overdue(cutoverBegan.Add(1000 * time.Hour)); limit != 0 || over {
		t.Error("the switch has a deadline", limit)
	}
	check(t, c.Resolve(true, cutoverBegan))
	if c.Answer != "yes" || c.Step != checkpoint.CutoverSwitching {
		t.Error(c.Answer, c.Step)
	}
	if err := cutoverAt(t, checkpoint.CutoverDrain).Resolve(false, cutoverBegan); !errors.Is(err, checkpoint.ErrCutover) {
		t.Error(err)
	}
	c = cutoverAt(t, checkpoint.CutoverWatching)
	if err := c.Watched(c.SwitchedAt.Add(c.WatchFor - time.Second)); err == nil {
		t.Error("the watch ends early")
	}
	check(t, c.Watched(c.SwitchedAt.Add(c.WatchFor)))
}

func TestCutoverDeadlines(t *testing.T) {
	for step, limit := range map[checkpoint.CutoverStep]time.Duration{
		checkpoint.CutoverFreeze: time.Minute, checkpoint.CutoverDrain: 5 * time.Minute, checkpoint.CutoverVerify: 5 * time.Minute, checkpoint.CutoverFence: 5 * time.Minute,
	} {
		c := cutoverAt(t, step)
		_, early := c.Overdue(cutoverBegan.Add(limit))
		got, late := c.Overdue(cutoverBegan.Add(limit + time.Second))
		if early || !late || got != limit || !c.Deadline.Equal(cutoverBegan.Add(5*time.Minute)) || c.LongestFreeze() != 5*time.Minute {
			t.Errorf("%s: %s, %v, %v; deadline %v", step, got, early, late, c.Deadline)
		}
		if step != checkpoint.CutoverFreeze {
			c.StepAt = c.Deadline.Add(time.Hour)
			if _, late := c.Overdue(c.StepAt.Add(time.Second)); !late {
				t.Errorf("%s: a step that begins after the deadline is not late", step)
			}
		}
	}
	for want, change := range map[time.Duration]func(*checkpoint.CutoverPlan){
		90 * time.Second: func(p *checkpoint.CutoverPlan) { p.FreezeWithin, p.FreezeDeadline = 0, 0 },
		3 * time.Minute:  func(p *checkpoint.CutoverPlan) { p.FreezeDeadline, p.FreezeAtMost = 0, time.Minute },
	} {
		if c := cutoverAt(t, checkpoint.CutoverFreeze, change); c.Deadline.Sub(cutoverBegan) != want {
			t.Errorf("the deadline is %s after the first call, want %s", c.Deadline.Sub(cutoverBegan), want)
		}
	}
	c := cutoverAt(t, checkpoint.CutoverFence, func(p *checkpoint.CutoverPlan) { p.Rehearse = true })
	if limit, _ := c.Overdue(cutoverBegan); limit != 10*time.Minute {
		t.Errorf("a step of a rehearsal may take %s", limit)
	}
}

// A request waits for its approval, its time and its hours, and not for ever.
func TestCutoverRequest(t *testing.T) {
	at := func(hour, minute int) time.Time { return time.Date(2026, 11, 3, hour, minute, 0, 0, time.UTC) }
	c := cutoverAt(t, checkpoint.CutoverRequested, func(p *checkpoint.CutoverPlan) {
		p.Approved, p.From, p.To, p.Expires = false, 23*60, 2*60, at(12, 0)
	})
	if c.Due(at(0, 0)) {
		t.Error("due without approval")
	}
	check(t, c.Approve(at(0, 0)))
	for _, when := range []struct {
		at  time.Time
		due bool
	}{{at(22, 59), false}, {at(23, 0), true}, {at(1, 59), true}, {at(2, 0), false}} {
		if c.Due(when.at) != when.due {
			t.Errorf("at %s due is %v", when.at, !when.due)
		}
	}
	check(t, c.Postpone(time.Hour, at(0, 30)))
	if c.Due(at(1, 29)) || !c.Due(at(1, 30)) || c.Expired(at(12, 59)) || !c.Expired(at(13, 0)) {
		t.Error("a request is not postponed as it should be", c.NotBefore, c.Expires)
	}
	check(t, c.Advance(at(1, 30)))
	if c.Expired(at(23, 0)) || c.Postpone(time.Hour, at(2, 0)) == nil || c.Approve(at(2, 0)) == nil {
		t.Error("what has begun is treated as a request")
	}
}

// H110: tokens rise with every call, whatever the step and the attempt.
func TestH110_TokensRise(t *testing.T) {
	c := cutoverAt(t, checkpoint.CutoverFreeze)
	c.Calls = 1
	tokens := []string{c.Token()}
	check(t, c.Cancel("", cutoverBegan))
	c.Calls = 2
	tokens = append(tokens, c.Token())
	check(t, c.Unfrozen(cutoverBegan))
	check(t, c.Cancelled(cutoverBegan))
	check(t, c.Start(cutoverPlan(), cutoverBegan))
	check(t, c.Advance(cutoverBegan))
	check(t, c.Advance(cutoverBegan))
	c.Calls = 1
	tokens = append(tokens, c.Token())
	if want := []string{"1.3.1", "1.8.2", "2.3.1"}; tokens[0] != want[0] || tokens[1] != want[1] || tokens[2] != want[2] {
		t.Errorf("tokens are %v, wanted %v", tokens, want)
	}
}

// A driver that slept halts nothing for an attempt that is over, and lets nothing go on that another
// one halted; nor does anybody once the application has switched.
func TestH110_HaltIsForOneAttempt(t *testing.T) {
	s := checkpoint.TableState{}
	check(t, s.HaltFor(2))
	check(t, s.Unhalt(1))
	if !s.Halted() {
		t.Error("a former attempt lets the table go on")
	}
	check(t, s.Unhalt(2))
	if s.Halted() {
		t.Error("the table is halted after its attempt")
	}
	for _, attempt := range []uint32{1, 2} {
		if err := s.HaltFor(attempt); !errors.Is(err, checkpoint.ErrCutover) || s.Halted() {
			t.Errorf("attempt %d, which is over, halts the table: %v", attempt, err)
		}
	}
	check(t, s.HaltFor(3))
	s.Halt.Switched = true
	if err := s.Unhalt(3); !errors.Is(err, checkpoint.ErrCutover) || !s.Halted() {
		t.Error("a table goes on whose application has switched", err)
	}
}

// A promise of the application covers earlier changes, also after later promises that do not reach
// as far.
func TestAPromiseToBeQuietStays(t *testing.T) {
	at := func(second int64) time.Time { return time.Unix(second, 0) }
	s := checkpoint.TableState{}
	if s.Halt.Quiet.Covers(at(1), time.Time{}) || s.Halt.Quiet.Covers(time.Time{}, time.Time{}) {
		t.Error("there is no promise")
	}
	s.Quieten(checkpoint.Quiet{At: at(100), To: at(105)})
	s.Quieten(checkpoint.Quiet{At: at(90), To: at(91)})
	if want := (checkpoint.Quiet{At: at(100), To: at(105)}); s.Halt.Quiet != want {
		t.Errorf("an earlier promise: %+v", s.Halt.Quiet)
	}
	s.Quieten(checkpoint.Quiet{At: at(100), To: at(107)})
	if q := s.Halt.Quiet; !q.Covers(at(100), at(107)) || q.Covers(at(101), time.Time{}) || q.Covers(at(100), at(108)) {
		t.Errorf("%+v", q)
	}
}

// The shards of a table are read often for an attempt that is about to freeze the application, until
// it is over. A driver that slept does not begin that again.
func TestAFreezeIsNear(t *testing.T) {
	s := checkpoint.TableState{}
	check(t, s.Approach(2))
	if !s.FreezeNear() {
		t.Error("the attempt is not known")
	}
	check(t, s.Unhalt(2))
	if s.FreezeNear() {
		t.Error("the attempt is over")
	}
	if err := s.Approach(2); !errors.Is(err, checkpoint.ErrCutover) || s.FreezeNear() {
		t.Errorf("an attempt that is over: %v", err)
	}
	check(t, s.Approach(3))
	if check(t, s.Approach(0)); s.FreezeNear() {
		t.Error("no attempt is near")
	}
}

// H78, H113: nothing is leased of a table that is halted, but parts of a verify.
func TestH78_H113_NothingIsLeasedOfAHaltedTable(t *testing.T) {
	virtually(t, func(ctx context.Context, p *place) {
		_, l := p.worker("a")
		create(t, ctx, l, shard("s", ""))
		_, err := l.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { return s.HaltFor(1) })
		check(t, err)
		shards, err := l.Shards(ctx, source)
		check(t, err)
		if _, err := l.Take(ctx, shards[0], nil); !errors.Is(err, checkpoint.ErrHalted) {
			t.Error("a shard is leased", err)
		}
		_, err = l.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { return s.Unhalt(1) })
		check(t, err)
		if _, err := l.Take(ctx, shards[0], nil); err != nil {
			t.Error("it is not leased after the cancel", err)
		}
	})
}

// A change of the record is refused once the cutover has left the step it was decided in.
func TestCutoverInStep(t *testing.T) {
	ctx := context.Background()
	l := openOn(t, ctx, &checkpointtest.Memory{}, "w", lease)
	c, err := l.Cutover(ctx, "")
	if err != nil || c.Attempt != 0 || c.Step.Active() {
		t.Fatal(c, err)
	}
	began, err := l.UpdateCutover(ctx, "", func(c *checkpoint.Cutover) error { return c.Start(cutoverPlan(), cutoverBegan) })
	check(t, err)
	_, err = l.InStep(ctx, began, func(c *checkpoint.Cutover) error { return c.Advance(cutoverBegan) })
	check(t, err)
	if _, err = l.InStep(ctx, began, func(c *checkpoint.Cutover) error { return c.Advance(cutoverBegan) }); !errors.Is(err, checkpoint.ErrMoved) {
		t.Error(err)
	}
	if c, err = l.Cutover(ctx, ""); err != nil || c.Step != checkpoint.CutoverChecks || c.Attempt != 1 {
		t.Error(c, err)
	}
	earlier := c
	earlier.Attempt = 0 // which was at the same step
	if _, err = l.InStep(ctx, earlier, func(c *checkpoint.Cutover) error { return c.Advance(cutoverBegan) }); !errors.Is(err, checkpoint.ErrMoved) {
		t.Errorf("a driver of another attempt changes the record: %v", err)
	}
}

// The application has left the source from the switch on; the error says since when.
func TestLeftSaysSinceWhen(t *testing.T) {
	at := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		record checkpoint.Cutover
		want   string
	}{
		{checkpoint.Cutover{}, ""},
		{checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverSwitching, SwitchedAt: at}, ""},
		{checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverCancelled, EndedAt: at}, ""},
		{checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverWatching, SwitchedAt: at}, "cut over on 2026-11-25 at 12:00 UTC; the application no longer uses the source"},
		{checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverDone, EndedAt: at.Add(time.Minute)}, "cut over on 2026-11-25 at 12:01 UTC; the application no longer uses the source"},
		{checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverDone}, checkpoint.ErrCutOver.Error()},
	} {
		err := c.record.Left()
		if (err != nil) != (c.want != "") || err != nil && (err.Error() != c.want || !errors.Is(err, checkpoint.ErrCutOver)) {
			t.Errorf("%+v: %v, want %q", c.record, err, c.want)
		}
	}
	all, some := checkpoint.Cutover{Attempt: 1}, checkpoint.Cutover{Attempt: 1, CutoverPlan: checkpoint.CutoverPlan{Tables: []string{"Orders"}}}
	if !all.Moves("Parts") || some.Moves("Parts") || !some.Moves("Orders") || (&checkpoint.Cutover{}).Moves("Orders") {
		t.Error("a cutover moves other tables than it names")
	}
}
