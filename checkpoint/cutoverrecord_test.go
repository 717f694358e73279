package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// everyStep are all steps, and none.
var everyStep = []checkpoint.CutoverStep{
	"", checkpoint.CutoverRequested, checkpoint.CutoverChecks, checkpoint.CutoverFreeze, checkpoint.CutoverDrain, checkpoint.CutoverVerify, checkpoint.CutoverFence,
	checkpoint.CutoverSwitching, checkpoint.CutoverWatching, checkpoint.CutoverDone, checkpoint.CutoverCancelling, checkpoint.CutoverCancelled, checkpoint.CutoverRehearsed,
}

// What others ask of a step: may another attempt begin, has somebody to drive, may it be cancelled,
// has the application switched.
func TestWhatACutoverStepMeans(t *testing.T) {
	want := map[checkpoint.CutoverStep]string{
		"": "over", checkpoint.CutoverRequested: "active cancellable", checkpoint.CutoverChecks: "active cancellable", checkpoint.CutoverFreeze: "active cancellable",
		checkpoint.CutoverDrain: "active cancellable", checkpoint.CutoverVerify: "active cancellable", checkpoint.CutoverFence: "active cancellable",
		checkpoint.CutoverSwitching: "active", checkpoint.CutoverWatching: "active switched", checkpoint.CutoverDone: "switched",
		checkpoint.CutoverCancelling: "active", checkpoint.CutoverCancelled: "over", checkpoint.CutoverRehearsed: "over",
	}
	for _, s := range everyStep {
		var is []string
		for _, a := range []struct {
			name string
			is   bool
		}{{"over", s.Over()}, {"active", s.Active()}, {"cancellable", s.Cancellable()}, {"switched", s.Switched()}} {
			if a.is {
				is = append(is, a.name)
			}
		}
		if got := strings.Join(is, " "); got != want[s] {
			t.Errorf("%q is %s, want %s", s, got, want[s])
		}
	}
}

// Each change is made at its own steps alone. A refusal names the change, the step and a cure, and
// leaves the record as it is.
func TestCutoverChangesAreOfTheirSteps(t *testing.T) {
	now := cutoverBegan.Add(2 * time.Hour)
	for _, c := range []struct {
		verb   string // of the refusal
		change func(c *checkpoint.Cutover) error
		at     []checkpoint.CutoverStep
	}{
		{"start", func(c *checkpoint.Cutover) error { return c.Start(cutoverPlan(), now) }, []checkpoint.CutoverStep{"", checkpoint.CutoverCancelled, checkpoint.CutoverRehearsed}},
		{"approve", func(c *checkpoint.Cutover) error { return c.Approve(now) }, []checkpoint.CutoverStep{checkpoint.CutoverRequested}},
		{"postpone", func(c *checkpoint.Cutover) error { return c.Postpone(time.Hour, now) }, []checkpoint.CutoverStep{checkpoint.CutoverRequested}},
		{"freeze writes in", func(c *checkpoint.Cutover) error { return c.Frozen(now) }, []checkpoint.CutoverStep{checkpoint.CutoverFreeze}},
		{"resolve", func(c *checkpoint.Cutover) error { return c.Resolve(true, now) }, []checkpoint.CutoverStep{checkpoint.CutoverSwitching}},
		{"resolve", func(c *checkpoint.Cutover) error { return c.Switch(true, "x", now) }, []checkpoint.CutoverStep{checkpoint.CutoverSwitching}},
		{"unfreeze writes in", func(c *checkpoint.Cutover) error { return c.Unfrozen(now) }, []checkpoint.CutoverStep{checkpoint.CutoverCancelling}},
		{"end the watch of", func(c *checkpoint.Cutover) error { return c.Watched(now) }, []checkpoint.CutoverStep{checkpoint.CutoverWatching}},
		{"finalize", func(c *checkpoint.Cutover) error { return c.Finalized(now) }, []checkpoint.CutoverStep{checkpoint.CutoverDone}},
		{"end", func(c *checkpoint.Cutover) error { return c.Cancelled(now) }, nil}, // nothing is unfrozen
		{"continue", func(c *checkpoint.Cutover) error { return c.Advance(now) }, []checkpoint.CutoverStep{checkpoint.CutoverRequested, checkpoint.CutoverChecks,
			checkpoint.CutoverDrain, checkpoint.CutoverVerify}},
	} {
		for _, step := range everyStep {
			record := checkpoint.Cutover{CutoverPlan: cutoverPlan(), Step: step, SwitchedAt: cutoverBegan}
			if record.Approved = false; step != "" {
				record.Attempt = 1
			}
			before := record
			err := c.change(&record)
			var refused *checkpoint.CutoverError
			switch fits := slices.Contains(c.at, step); {
			case fits && (err != nil || reflect.DeepEqual(before, record)):
				t.Errorf("%s at %q: %v, %+v", c.verb, step, err, record)
			case !fits && (!errors.As(err, &refused) || refused.Step != c.verb || refused.Reason == "" || refused.Cure == "" || !reflect.DeepEqual(before, record)):
				t.Errorf("%s at %q is not refused: %v, %+v", c.verb, step, err, record)
			case !fits && step == "" && strings.Contains(refused.Reason, "step"):
				t.Errorf("%s before any attempt: %v", c.verb, err)
			}
		}
	}
	var refused *checkpoint.CutoverError
	switching := &checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverSwitching}
	if err := switching.Cancel("why", now); !errors.As(err, &refused) || !strings.Contains(refused.Cure, "resolve --switched") {
		t.Errorf("what leads on from a switch that nobody may cancel: %v", err)
	}
	if check(t, switching.Resolve(true, now)); !strings.HasSuffix(switching.Timeline[0].Text, "yes") {
		t.Errorf("an operator's answer is not in the timeline: %+v", switching.Timeline)
	}
	for _, step := range everyStep { // that the application writes again ends nothing but a cancel
		record := checkpoint.Cutover{Attempt: 1, Step: step, UnfrozenAt: now}
		if err := record.Cancelled(now); (err == nil) != (step == checkpoint.CutoverCancelling) {
			t.Errorf("ended at %q: %v", step, err)
		}
	}
	for _, plan := range []checkpoint.CutoverPlan{{Tables: []string{"Orders"}}, {Targets: []string{"orders"}}} {
		if err := (&checkpoint.Cutover{}).Start(plan, now); !errors.Is(err, checkpoint.ErrCutover) {
			t.Errorf("a cutover of nothing begins: %+v, %v", plan, err)
		}
	}
}

// A change that is repeated, as after a lost answer, keeps the time of the first, and says it once.
func TestCutoverKeepsTheFirstTime(t *testing.T) {
	first, second := cutoverBegan.Add(time.Minute), cutoverBegan.Add(time.Hour)
	for name, c := range map[string]struct {
		at     checkpoint.CutoverStep
		change func(c *checkpoint.Cutover, now time.Time) error
		time   func(c *checkpoint.Cutover) time.Time
	}{
		"frozen":    {checkpoint.CutoverFreeze, (*checkpoint.Cutover).Frozen, func(c *checkpoint.Cutover) time.Time { return c.FrozenAt }},
		"unfrozen":  {checkpoint.CutoverCancelling, (*checkpoint.Cutover).Unfrozen, func(c *checkpoint.Cutover) time.Time { return c.UnfrozenAt }},
		"finalized": {checkpoint.CutoverDone, (*checkpoint.Cutover).Finalized, func(c *checkpoint.Cutover) time.Time { return c.FinalizedAt }},
	} {
		record := checkpoint.Cutover{Attempt: 1, Step: c.at}
		check(t, c.change(&record, first))
		lines := len(record.Timeline)
		check(t, c.change(&record, second))
		if !c.time(&record).Equal(first) || len(record.Timeline) != lines || lines == 0 && name != "frozen" {
			t.Errorf("%s at %v, want %v: %+v", name, c.time(&record), first, record.Timeline)
		}
	}
	record := checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverRequested}
	for _, text := range []string{"approved", "approved"} {
		if check(t, record.Approve(first)); len(record.Timeline) != 1 || record.Timeline[0].Text != text {
			t.Errorf("%+v", record.Timeline)
		}
	}
}

// Which times each step brings: when it began, in UTC, and when the attempt was over; what the
// former step waited for is gone.
func TestTimesOfCutoverSteps(t *testing.T) {
	zone := time.FixedZone("CET", 3600)
	for _, c := range []struct {
		name   string
		change func(c *checkpoint.Cutover, now time.Time) error
		from   checkpoint.CutoverStep
		want   string
	}{
		{"to the freeze", (*checkpoint.Cutover).Advance, checkpoint.CutoverChecks, "freeze: step freeze-begun"},
		{"to the drain", (*checkpoint.Cutover).Advance, checkpoint.CutoverFreeze, "drain: step"},
		{"to the switch", (*checkpoint.Cutover).Advance, checkpoint.CutoverFence, "switching: step"},
		{"switched", func(c *checkpoint.Cutover, now time.Time) error { return c.Switch(true, "x", now) }, checkpoint.CutoverSwitching, "watching: step switched"},
		{"not switched", func(c *checkpoint.Cutover, now time.Time) error { return c.Switch(false, "x", now) }, checkpoint.CutoverSwitching, "cancelled: step ended"},
		{"watched", (*checkpoint.Cutover).Watched, checkpoint.CutoverWatching, "done: step ended"},
		{"cancelled at once", func(c *checkpoint.Cutover, now time.Time) error { return c.Cancel("why", now) }, checkpoint.CutoverChecks, "cancelled: step ended"},
		{"cancelled", (*checkpoint.Cutover).Cancelled, checkpoint.CutoverCancelling, "cancelled: step ended"},
	} {
		now := cutoverBegan.Add(3 * time.Hour).In(zone)
		record := checkpoint.Cutover{Attempt: 1, Step: c.from, CutoverPlan: cutoverPlan(), FrozenAt: cutoverBegan, FencedAt: cutoverBegan, UnfrozenAt: cutoverBegan, Trouble: "of before"}
		check(t, c.change(&record, now))
		got := string(record.Step) + ":"
		for _, at := range []struct {
			name string
			time time.Time
		}{{"step", record.StepAt}, {"freeze-begun", record.FreezeBegunAt}, {"switched", record.SwitchedAt}, {"ended", record.EndedAt}} {
			if at.time.Equal(now) && at.time.Location() == time.UTC {
				got += " " + at.name
			} else if !at.time.IsZero() {
				t.Errorf("%s: %s at %v", c.name, at.name, at.time)
			}
		}
		if n := len(record.Timeline); got != c.want || record.Trouble != "" || n != 1 || record.Timeline[0].At.Location() != time.UTC || record.Timeline[0].Step != string(record.Step) {
			t.Errorf("%s: %s, want %s; %+v", c.name, got, c.want, record.Timeline)
		}
	}
	plan := cutoverPlan()
	plan.Rehearse, plan.By = true, "ops-1"
	rehearsed := checkpoint.Cutover{FencedAt: cutoverBegan}
	check(t, rehearsed.Start(plan, cutoverBegan.In(zone)))
	if rehearsed.BegunAt != cutoverBegan || !strings.Contains(rehearsed.Timeline[0].Text, "ops-1") {
		t.Errorf("begun at %v: %+v", rehearsed.BegunAt, rehearsed.Timeline)
	}
	for _, step := range []checkpoint.CutoverStep{checkpoint.CutoverChecks, checkpoint.CutoverDrain, checkpoint.CutoverVerify, checkpoint.CutoverFence, checkpoint.CutoverRehearsed} {
		rehearsed.FencedAt = cutoverBegan
		if check(t, rehearsed.Advance(cutoverBegan)); rehearsed.Step != step || rehearsed.EndedAt.IsZero() == (step == checkpoint.CutoverRehearsed) {
			t.Errorf("a rehearsal goes on to %s, want %s; ended at %v", rehearsed.Step, step, rehearsed.EndedAt)
		}
	}
}

// The timeline says each thing once, and keeps its end; calls that go on failing alike are kept as
// the first and the last; a straggler counts once, and of many the first are named.
func TestWhatACutoverKeeps(t *testing.T) {
	c := checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverDrain}
	for i, n := range []struct {
		text  string
		step  checkpoint.CutoverStep
		lines int
	}{{"a", checkpoint.CutoverDrain, 1}, {"a", checkpoint.CutoverDrain, 1}, {"b", checkpoint.CutoverDrain, 2}, {"a", checkpoint.CutoverDrain, 3}, {"a", checkpoint.CutoverVerify, 4}} {
		c.Step = n.step
		if c.Note(cutoverBegan, n.text); len(c.Timeline) != n.lines {
			t.Errorf("note %d makes %d lines", i, len(c.Timeline))
		}
	}
	for i := range 300 {
		c.Note(cutoverBegan, fmt.Sprint(i))
	}
	if n := len(c.Timeline); n != 200 || c.Timeline[n-1].Text != "299" || c.Timeline[0].Text != "100" {
		t.Errorf("%d lines, %+v first", n, c.Timeline[0])
	}
	calls := func(calls ...string) (left string) {
		record := checkpoint.Cutover{}
		for i, call := range calls {
			name, outcome, _ := strings.Cut(call, " ")
			record.Heard(checkpoint.CutoverHook{Name: name, Outcome: outcome, Token: fmt.Sprint(i)})
		}
		for _, h := range record.Hooks {
			left += h.Token
		}
		return left
	}
	for _, n := range []struct {
		calls []string
		left  string
	}{
		{[]string{"s unknown", "s unknown", "s unknown", "s unknown"}, "03"}, {[]string{"s unknown", "s unknown", "s done"}, "012"},
		{[]string{"s unknown", "s unknown", "u unknown"}, "012"}, {[]string{"f done", "s unknown", "s unknown"}, "012"}, {[]string{"s unknown", "f unknown", "s unknown", "s unknown"}, "0123"},
	} {
		if left := calls(n.calls...); left != n.left {
			t.Errorf("of %q the calls %s are kept, want %s", n.calls, left, n.left)
		}
	}
	many := checkpoint.Cutover{}
	for i := range 70 {
		many.Heard(checkpoint.CutoverHook{Name: fmt.Sprint(i)})
	}
	if n := len(many.Hooks); n != 60 || many.Hooks[n-1].Name != "69" {
		t.Errorf("%d calls, %s last", n, many.Hooks[n-1].Name)
	}
	for i := range 60 {
		s := checkpoint.CutoverStraggler{Table: "Orders", Key: fmt.Sprint(i % 55), At: cutoverBegan}
		if known := many.Stray(s); known == (i >= 55) && i < 50 {
			t.Errorf("straggler %d: %t", i, known)
		}
	}
	if len(many.Stragglers) != 50 || many.Stragglers[0].Key != "0" || many.Strays < 55 {
		t.Errorf("%d of %d stragglers", len(many.Stragglers), many.Strays)
	}
	if many.Stray(many.Stragglers[3]) {
		t.Error("a straggler counts twice")
	}
}

// How long the application was without writes: from when the freeze was begun until it writes
// again, here or there, or until now.
func TestFrozenFor(t *testing.T) {
	at := func(m int) time.Time { return cutoverBegan.Add(time.Duration(m) * time.Minute) }
	for name, c := range map[string]struct {
		record checkpoint.Cutover
		want   time.Duration
	}{
		"not yet":  {checkpoint.Cutover{}, 0},
		"still":    {checkpoint.Cutover{FreezeBegunAt: at(1)}, 9 * time.Minute},
		"unfrozen": {checkpoint.Cutover{FreezeBegunAt: at(1), UnfrozenAt: at(4)}, 3 * time.Minute},
		"switched": {checkpoint.Cutover{FreezeBegunAt: at(1), SwitchedAt: at(6)}, 5 * time.Minute},
		"ahead":    {checkpoint.Cutover{FreezeBegunAt: at(11)}, 0},
	} {
		if got := c.record.FrozenFor(at(10)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// When a request may begin: from the minute and the time that are said, and never from when it
// expires. One that is postponed expires that much later, from now on if it had expired; one
// without an expiry has none.
func TestWhenACutoverIsDue(t *testing.T) {
	at := func(hour, minute, second int) time.Time {
		return time.Date(2026, 11, 3, hour, minute, second, 0, time.UTC)
	}
	for _, c := range []struct {
		from, to int
		now      time.Time
		due      bool
	}{
		{0, 0, at(5, 0, 0), true}, {120, 240, at(1, 59, 59), false}, {120, 240, at(2, 0, 0), true}, {120, 240, at(3, 59, 59), true}, {120, 240, at(4, 0, 0), false},
		{150, 240, at(2, 29, 59), false}, {150, 240, at(2, 30, 0), true},
		{120, 240, at(2, 0, 0).In(time.FixedZone("CET", 3600)), true},
	} {
		record := checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverRequested, CutoverPlan: checkpoint.CutoverPlan{Approved: true, From: c.from, To: c.to}}
		if record.Due(c.now) != c.due {
			t.Errorf("between %d and %d, at %v: due is %t", c.from, c.to, c.now, !c.due)
		}
		if record.NotBefore = c.now; record.Due(c.now) != c.due {
			t.Errorf("not before %v, at that time: due is %t", c.now, !c.due)
		}
		if record.NotBefore = c.now.Add(1); record.Due(c.now) {
			t.Errorf("due before %v", record.NotBefore)
		}
		record.NotBefore, record.Step = time.Time{}, checkpoint.CutoverDrain
		if record.Due(c.now) {
			t.Error("what has begun is due")
		}
	}
	record := checkpoint.Cutover{Attempt: 1, Step: checkpoint.CutoverRequested}
	if check(t, record.Postpone(time.Hour, at(1, 0, 0))); !record.Expires.IsZero() || record.Expired(at(23, 0, 0)) || !record.NotBefore.Equal(at(2, 0, 0)) {
		t.Errorf("without an expiry: %v", record.Expires)
	}
	record.Expires = at(1, 0, 0)
	if check(t, record.Postpone(time.Hour, at(3, 0, 0))); !record.Expires.Equal(at(4, 0, 0)) || record.Expired(at(4, 0, 0).Add(-1)) || !record.Expired(at(4, 0, 0)) {
		t.Errorf("after it expired: %v", record.Expires)
	}
	if limit, over := (&checkpoint.Cutover{Step: checkpoint.CutoverSwitching}).Overdue(at(5, 0, 0)); limit != 0 || over {
		t.Error("a step without a deadline is overdue")
	}
}

// A halt is of the newest attempt that is not over: an earlier one neither halts nor lets go, the
// same one may halt again, and what is over stays over whatever an earlier one says.
func TestAHaltIsOfTheNewestAttempt(t *testing.T) {
	s := checkpoint.TableState{}
	check(t, s.HaltFor(3))
	check(t, s.HaltFor(3))
	if err := s.HaltFor(2); err == nil || s.Halt.Attempt != 3 {
		t.Errorf("attempt 2 halts a table of attempt 3: %v, %+v", err, s.Halt)
	}
	check(t, s.Unhalt(4))
	check(t, s.Unhalt(2))
	if s.Halted() || s.Halt.Over != 4 {
		t.Errorf("%+v", s.Halt)
	}
	if err := s.HaltFor(4); err == nil || s.Halted() {
		t.Errorf("an attempt that is over halts the table: %+v", s.Halt)
	}
	check(t, s.HaltFor(5))
	for _, h := range []checkpoint.Halt{{On: true}, {Switched: true}, {Done: true}} {
		if s := (&checkpoint.TableState{Halt: h}); !s.Halted() || !s.Stopped() {
			t.Errorf("%+v halts nothing", h)
		}
	}
}

// The record is written if it changes, and not otherwise; a change that is overtaken is made anew
// on what is there then, and a change that is refused writes nothing.
func TestHowACutoverIsWritten(t *testing.T) {
	ctx := context.Background()
	store := &checkpointtest.Memory{}
	l, other := openOn(t, ctx, store, "w", lease), openOn(t, ctx, store, "o", lease)
	writes, meanwhile := 0, func() {}
	store.OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) {
		writes++
		if f := meanwhile; f != nil {
			meanwhile = nil
			f()
		}
		return execute(), nil
	}
	refused := errors.New("refused")
	same := func(*checkpoint.Cutover) error { return nil }
	for i, change := range []func(*checkpoint.Cutover) error{same, func(*checkpoint.Cutover) error { return refused }} {
		if _, err := l.UpdateCutover(ctx, "", change); writes > 0 || errors.Is(err, refused) != (i == 1) {
			t.Errorf("%d writes before there is one: %v", writes, err)
		}
	}
	_, err := l.UpdateCutover(ctx, "", func(c *checkpoint.Cutover) error { return c.Start(cutoverPlan(), cutoverBegan) })
	check(t, err)
	writes = 0
	meanwhile = func() {
		_, err := other.UpdateCutover(ctx, "", func(c *checkpoint.Cutover) error { c.Calls++; return nil })
		check(t, err)
	}
	c, err := l.UpdateCutover(ctx, "", func(c *checkpoint.Cutover) error { c.Calls++; c.Note(cutoverBegan, "mine"); return nil })
	if read, _ := l.Cutover(ctx, ""); err != nil || c.Calls != 2 || read.Calls != 2 || len(read.Timeline) != 2 || writes != 3 {
		t.Errorf("%d calls, %d are stored, after %d writes: %v", c.Calls, read.Calls, writes, err)
	}
	if _, err := l.UpdateCutover(ctx, "", same); err != nil || writes != 3 {
		t.Errorf("%d writes of nothing: %v", writes-3, err)
	}
	store.OnSwap = func(context.Context, string, func() bool) (bool, error) { return false, nil }
	if _, err := l.UpdateCutover(ctx, "", func(c *checkpoint.Cutover) error { c.Calls++; return nil }); !errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("always overtaken: %v", err)
	}
}

// Who writes a ledger is told by counters alone, rows that are new among them, and who holds a
// lease by its row; a move is refused where the ledger is of a third cluster, and may be repeated.
func TestActivityAndMove(t *testing.T) {
	ctx := context.Background()
	store := &checkpointtest.Memory{}
	a, b := openOn(t, ctx, store, "a", lease), openOn(t, ctx, store, "b", lease)
	update := func(l *checkpoint.Ledger, source string) {
		_, err := l.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { s.Generation++; return nil })
		check(t, err)
	}
	update(a, "Orders")
	before, err := a.Activity(ctx)
	check(t, err)
	if writers := before.Since(before); len(writers) > 0 || len(before.Held) > 0 {
		t.Errorf("nobody writes: %v, %v", writers, before.Held)
	}
	update(b, "Orders")
	update(b, "Parts")
	update(a, "Users")
	for _, l := range []*checkpoint.Ledger{b, a} {
		for _, source := range map[*checkpoint.Ledger][]string{b: {"Orders", "Parts"}, a: {"Parts", "Users"}}[l] {
			seen, err := l.CoordinatorLease(ctx, source)
			check(t, err)
			if seen.Owner() == "" {
				_, err = l.TakeCoordinatorLease(ctx, seen)
				check(t, err)
			}
		}
	}
	after, err := a.Activity(ctx)
	check(t, err)
	if writers := after.Since(before); !slices.Equal(writers, []string{"a", "b"}) || !slices.Equal(after.Held, []string{"a", "b"}) {
		t.Errorf("writers %v, leases of %v", writers, after.Held)
	}
	check(t, a.CheckCluster(ctx, "one"))
	if err := a.Move(ctx, "two", "three"); !errors.Is(err, checkpoint.ErrClusterChanged) {
		t.Errorf("it is moved from a cluster that is not its own: %v", err)
	}
	check(t, a.Move(ctx, "one", "two"))
	check(t, a.Move(ctx, "one", "two"))
	if now, err := b.Cluster(ctx); err != nil || now != "two" {
		t.Errorf("it is of cluster %s: %v", now, err)
	}
}

// A target of a lost ledger may hold copies whose time is not known. A time that is known stays,
// and so does what must still be swept.
func TestATargetInheritsCopies(t *testing.T) {
	known := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for _, c := range []struct{ before, after checkpoint.Target }{
		{checkpoint.Target{}, checkpoint.Target{CopiedAt: time.UnixMilli(1).UTC(), Swept: true}},
		{checkpoint.Target{CopiedAt: known}, checkpoint.Target{CopiedAt: known}},
		{checkpoint.Target{CopiedAt: known, Swept: true}, checkpoint.Target{CopiedAt: known, Swept: true}},
	} {
		got := c.before
		if got.Inherit(); got.CopiedAt != c.after.CopiedAt || got.Swept != c.after.Swept {
			t.Errorf("copied at %v, swept %v; want %v, %v", got.CopiedAt, got.Swept, c.after.CopiedAt, c.after.Swept)
		}
	}
}

// A former ledger is noted once, and a ledger never as its own former one.
func TestATargetIsDisowned(t *testing.T) {
	target := checkpoint.Target{}
	for i, want := range []string{"[]", "[lost]", "[lost]", "[lost older]", "[lost older]"} {
		target.Disown([]string{"", "lost", "lost", "older", "own"}[i], "own")
		if got := fmt.Sprint(target.Former); got != want {
			t.Errorf("after %d: %s, want %s", i, got, want)
		}
	}
	shared := target.Former[:1]
	other := checkpoint.Target{Former: shared}
	if other.Disown("third", "own"); target.Former[1] != "older" {
		t.Error("a record that was read is changed")
	}
}
