package loads

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// The states of a repair: a gap, a requested load, a paused and a slowed one, a waiting sweep, and
// the end. Each shows the operator's view and the next command.
func TestFromAGapToInSync(t *testing.T) {
	play(t, "{max_rows_per_second: 5000}", func(ctx context.Context, s *scene) {
		if d := s.golden(ctx, "nothing"); d.NextSteps[0].Command != "replicator run -c f.yaml" {
			t.Error(d.NextSteps)
		}
		s.begin(ctx)
		s.lose(ctx)
		s.golden(ctx, "gap")
		decided := s.steer(ctx, Request{Action: ActionStart, Repair: true})
		s.golden(ctx, "asked", decided...)
		s.seal(ctx, 4, 100_000, 256<<20)
		first, second := s.part(ctx, 0), s.part(ctx, 1)
		s.sleep(ctx, 90*time.Second)
		s.check(first.Finish(ctx, checkpoint.PartProgress{Items: 25_000, Bytes: 64 << 20, Units: 8192}))
		second.Note(checkpoint.Trouble{Step: "copy", Cause: "target CPU 74% > 70%", Since: s.world.Now(), Throttled: true})
		s.check(second.Commit(ctx, checkpoint.PartProgress{Items: 5_000, Bytes: 12 << 20, Units: 1600}))
		s.sleep(ctx, 10*time.Second)
		if d := s.golden(ctx, "copying"); *d.Tables[0].Load.ItemsPerSecond != 300 || int(*d.Tables[0].Load.ETASeconds) != 233 {
			t.Error(*d.Tables[0].Load)
		}
		s.steer(ctx, Request{Action: ActionPause})
		if l := s.golden(ctx, "paused").Tables[0].Load; l.ETASeconds != nil || l.ItemsPerSecond != nil {
			t.Error("a paused load has a rate")
		}
		s.steer(ctx, Request{Action: ActionResume})
		s.sleep(ctx, time.Minute)
		if l := s.golden(ctx, "silent").Tables[0].Load; l.ETASeconds != nil || l.ItemsPerSecond != nil {
			t.Error("a silent worker has a rate")
		}
		s.sweepWaits(ctx)
		s.golden(ctx, "approval")
		if d := s.steer(ctx, Request{Action: ActionResume}); d[0].Action != actionRefused || !s.state(ctx).Load.Sweep.Waiting {
			t.Error(d)
		}
		s.steer(ctx, Request{Action: ActionResume, Approve: true})
		for pass, written := range []int64{3, 0} {
			s.pass(ctx, pass+1, checkpoint.Counts{Seen: 3, Put: written})
		}
		if d := s.golden(ctx, "done"); len(d.NextSteps) != 0 || d.Tables[0].Needed {
			t.Error(d)
		}
	})
}

// sweepWaits ends the copy, and the pass that only counts.
func (s *scene) sweepWaits(ctx context.Context) {
	s.Helper()
	for index := 1; index < 4; index++ { // the first one's lease has ended
		s.check(s.part(ctx, index).Finish(ctx, checkpoint.PartProgress{Items: 25_000, Bytes: 64 << 20, Units: 8192}))
	}
	state := s.state(ctx)
	parts, err := s.worker.Parts(ctx, state, checkpoint.PhaseCopy)
	s.check(err)
	_, err = s.worker.CompleteCopy(ctx, state, checkpoint.PartsDone(parts, state.Load.Parts))
	s.check(err)
	s.pass(ctx, 0, checkpoint.Counts{Seen: 5, Put: 3, Removed: 2})
}

// pass plays a pass of the sweep of one part.
func (s *scene) pass(ctx context.Context, number int, counts checkpoint.Counts) {
	s.Helper()
	_, err := s.worker.BeginSweep(ctx, s.state(ctx), number, []checkpoint.SweepRange{{Table: "orders"}})
	s.check(err)
	s.check(s.part(ctx, 0).Finish(ctx, checkpoint.PartProgress{Counts: counts}))
	state := s.state(ctx)
	parts, err := s.worker.Parts(ctx, state, checkpoint.PhaseSweep(number))
	s.check(err)
	_, err = s.worker.CompletePass(ctx, state, checkpoint.PartsDone(parts, 1))
	s.check(err)
}

// The effect of each command in each state of a load, and whether a wait continues there.
func TestDecisions(t *testing.T) {
	sealed := checkpoint.Load{Generation: 7, Number: 2, Parts: 4}
	over := sealed
	over.DoneAt, over.SweptAt = noon, noon
	sweeping := sealed
	sweeping.DoneAt = noon
	waiting := sweeping
	waiting.Sweep = checkpoint.Sweep{BegunAt: noon, Waiting: true, Counts: checkpoint.Counts{Put: 1, Removed: 2}}
	paused := sealed
	paused.Paused = checkpoint.PausedByOperator
	crowded := sealed
	crowded.Paused = checkpoint.PausedForHeadroom
	state := func(l checkpoint.Load, needs bool) checkpoint.TableState {
		s := checkpoint.TableState{Source: "Orders", Generation: 7, Adopted: 7, NeedsLoad: needs, Load: l}
		if needs {
			s.Reason = "lost"
		}
		if !needs && !l.SweptAt.IsZero() {
			s.Base = 7
		}
		return s
	}
	for name, c := range map[string]struct {
		state                                checkpoint.TableState
		start, repair, pause, resume, answer string // actions; answer: resume --yes
		over                                 bool
		stuck                                string // part of the text
	}{
		"unknown":   {checkpoint.TableState{Source: "Orders"}, actionRefused, actionRefused, actionRefused, actionRefused, actionRefused, false, ""},
		"not asked": {state(checkpoint.Load{}, false), ActionStart, actionNone, actionNone, actionNone, actionNone, false, ""},
		"gap":       {state(checkpoint.Load{}, true), ActionStart, ActionStart, actionNone, actionNone, actionNone, false, "on_gap: wait"},
		"asked":     {state(checkpoint.Load{AskedAt: noon}, true), actionNone, actionNone, ActionPause, actionNone, ActionResume, false, ""},
		"copying":   {state(sealed, true), actionNone, actionNone, ActionPause, actionNone, ActionResume, false, ""},
		"paused":    {state(paused, true), actionNone, actionNone, actionNone, ActionResume, ActionResume, false, "paused by an operator"},
		"crowded":   {state(crowded, true), actionNone, actionNone, ActionPause, ActionResume, ActionResume, false, ""},
		"sweeping":  {state(sweeping, true), actionNone, actionNone, ActionPause, actionNone, ActionResume, false, ""},
		"waiting":   {state(waiting, true), actionNone, actionNone, ActionPause, actionRefused, ActionResume, false, "waits for approval"},
		"in order":  {state(over, false), actionRefused, actionNone, actionNone, actionNone, actionNone, true, ""},
		"left over": {state(over, true), actionRefused, actionRefused, actionNone, actionNone, actionNone, false, "needs a load"},
	} {
		table := TableInput{Found: name != "unknown", State: c.state}
		table.Config.From = "Orders"
		for want, r := range map[*string]Request{
			&c.start: {Action: ActionStart}, &c.repair: {Action: ActionStart, Repair: true}, &c.pause: {Action: ActionPause},
			&c.resume: {Action: ActionResume}, &c.answer: {Action: ActionResume, Approve: true},
		} {
			if d := r.decide(table); d.Action != *want || d.Why == "" {
				t.Errorf("%s: %+v does %q (%s), want %q", name, r, d.Action, d.Why, *want)
			}
		}
		ended, stuck := ended(c.state, false)
		if ended != c.over || (stuck == "") != (c.stuck == "") || !strings.Contains(stuck, c.stuck) {
			t.Errorf("%s: over %v, stuck %q", name, ended, stuck)
		}
		if step, ok := Next(c.state, false, ""); ok != (c.stuck != "") || ok && !strings.Contains(step.Command, " Orders") {
			t.Errorf("%s: next %q", name, step.Command)
		}
		if d := (Request{Action: ActionRedo}).decide(table); d.Action != ActionRedo && table.Found {
			t.Errorf("%s: redo %+v", name, d)
		}
	}
	gap := state(checkpoint.Load{}, true)
	if _, ok := Next(gap, true, ""); ok {
		t.Error("on_gap: load needs nobody")
	}
	if _, stuck := ended(gap, true); stuck != "" {
		t.Error("on_gap: load goes on by itself: ", stuck)
	}
	gap.Tries = checkpoint.MaxTries
	step, ok := Next(gap, true, "")
	if _, stuck := ended(gap, true); !ok || !strings.Contains(stuck, "3 loads did not finish") || !strings.Contains(step.Why, "3 loads did not complete") {
		t.Error("after three loads that did not end nobody asks for the fourth: ", stuck, step)
	}
}

// A redo begins another generation with a requested load. Workers read changed limits at their next
// pass.
func TestRedoAndThrottle(t *testing.T) {
	play(t, "{max_read_capacity: 25%, pause_above_target_cpu: 70%}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.steer(ctx, Request{Action: ActionRedo, Approve: true})
		if state := s.state(ctx); state.Generation <= 7 || state.Stage() != checkpoint.StageAsked || state.Kind != checkpoint.KindAskedFor || !state.Load.Sweep.Approved {
			t.Errorf("%+v", state)
		}
		limits, err := Asked{MaxReadCapacity: "40", PauseAboveTargetCPU: "none"}.Limits()
		s.check(err)
		s.steer(ctx, Request{Action: ActionThrottle, Limits: limits})
		if got := s.read(ctx).judge(cost.Default(), "", noon).Tables[0].Limits.String(); got != "limits (set at 2026-11-24T12:00:00Z): 40 read units a second" {
			t.Error(got)
		}
		s.steer(ctx, Request{Action: ActionThrottle, Reset: true})
		if got := s.read(ctx).judge(cost.Default(), "", noon).Tables[0].Limits.String(); got != "limits (configured): 25% of the provisioned read capacity; waits while the target's CPU is above 70%" {
			t.Error(got)
		}
	})
	for _, a := range []Asked{{MaxRowsPerSecond: "-1"}, {MaxRowsPerSecond: "many"}, {MaxReadCapacity: "0%"}, {PauseAboveTargetCPU: "0.7"}} {
		if _, err := a.Limits(); diag.ExitCode(err) != diag.ExitUsage {
			t.Errorf("%+v: %v", a, err)
		}
	}
}

// A cancelled load ends, and the next step starts another one. If no load is in progress, nothing
// is done.
func TestACancelLeadsToAnotherLoad(t *testing.T) {
	for name, c := range map[string]struct {
		begin func(ctx context.Context, s *scene)
		why   string
		next  string
	}{
		"none":  {func(context.Context, *scene) {}, "no load is running", ""},
		"asked": {func(ctx context.Context, s *scene) { s.lose(ctx); s.steer(ctx, Request{Action: ActionStart}) }, "the request is withdrawn", "backfill repair Orders"},
		"sealed": {func(ctx context.Context, s *scene) {
			s.lose(ctx)
			s.steer(ctx, Request{Action: ActionStart})
			s.seal(ctx, 1, 10, 10)
		}, "load 1 ends, and another generation begins", "backfill repair Orders"},
		"the first": {func(ctx context.Context, s *scene) {
			s.update(ctx, func(t *checkpoint.TableState) {
				t.Base, t.NeedsLoad, t.Load = 0, false, checkpoint.Load{AskedAt: noon}
			})
		}, "the request is withdrawn", "backfill start --table Orders"},
	} {
		play(t, "{on_gap: load}", func(ctx context.Context, s *scene) {
			s.begin(ctx)
			c.begin(ctx, s)
			in := s.read(ctx)
			r := Request{Action: ActionCancel}
			decided := in.decideAll(r)
			if !strings.HasPrefix(decided[0].Why, c.why) {
				t.Errorf("%s: %+v", name, decided)
			}
			s.check(in.carryOut(ctx, r, decided))
			step, leads := Next(s.state(ctx), true, "")
			if leads != (c.next != "") || leads && step.Command != "replicator "+c.next {
				t.Errorf("%s: %+v", name, step)
			}
			if again := s.read(ctx).decideAll(r); again[0].Why != "no load is running" {
				t.Errorf("%s, again: %+v", name, again)
			}
		})
	}
}

// If the state changes meanwhile, the earlier decision is refused, with advice.
func TestADecisionThatCameTooLate(t *testing.T) {
	play(t, "{}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.lose(ctx)
		in := s.read(ctx)
		r := Request{Action: ActionStart}
		decided := in.decideAll(r)
		s.steer(ctx, r)
		s.seal(ctx, 1, 10, 10)
		err := in.carryOut(ctx, r, decided)
		if !diag.Has(err, diag.LoadRefused) || diag.ExitCode(err) != diag.ExitNo || !strings.Contains(err.Error(), "a load is running") {
			t.Error(err)
		}
		r = Request{Action: ActionRedo}
		in = s.read(ctx)
		decided = in.decideAll(r)
		s.lose(ctx)
		if err := in.carryOut(ctx, r, decided); !diag.Has(err, diag.LoadRefused) || s.state(ctx).Stage() == checkpoint.StageAsked {
			t.Error(err)
		}
	})
}

type described struct{ backfill.Description }

func (d described) Describe(context.Context, string) (backfill.Description, error) {
	return d.Description, nil
}

// A dry run shows the cost of a load under the current limits, and changes nothing.
func TestDryRun(t *testing.T) {
	play(t, "{max_read_capacity: 25%}", func(ctx context.Context, s *scene) {
		s.begin(ctx)
		s.lose(ctx)
		in, before := s.read(ctx), s.state(ctx)
		decided := in.decideAll(Request{Action: ActionStart, Repair: true})
		source := described{backfill.Description{Items: 40 << 20, Bytes: 40 << 30, ReadCapacity: 1000}}
		s.check(in.estimateAll(ctx, source, cost.Default(), Request{Action: ActionStart}, decided))
		e := decided[0].Estimate
		if e.Parts != 640 || e.LimitedBy != "backfill.max_read_capacity" || int(*e.Seconds) != 41943 || len(e.Cost) != 2 {
			t.Errorf("%+v", e)
		}
		d := s.golden(ctx, "estimate", decided...)
		d.DryRun = true
		var text strings.Builder
		s.check(d.render(&text))
		if !strings.Contains(text.String(), "Orders: would start: ") || !strings.HasSuffix(text.String(), "\nnothing was changed\n") {
			t.Error(text.String())
		}
		if after := s.state(ctx); after.Changed != before.Changed {
			t.Error("a dry run wrote")
		}
	})
}

// The rate counts the last five minutes, and is shown only after a tenth of a minute.
func TestRate(t *testing.T) {
	part := func(begun, end time.Duration, items int64) checkpoint.Part {
		p := checkpoint.Part{Begun: noon.Add(begun)}
		p.Items, p.WrittenAt = items, noon.Add(end)
		return p
	}
	// The error of its worker's clock.
	corrected := func(p checkpoint.Part, offset float64) checkpoint.Part {
		p.ClockOffset = offset
		return p
	}
	for name, c := range map[string]struct {
		parts []checkpoint.Part
		rate  float64
		known bool
	}{
		"none":       {nil, 0, false},
		"just begun": {[]checkpoint.Part{part(-5*time.Second, 0, 100)}, 0, false},
		"young":      {[]checkpoint.Part{part(-time.Minute, 0, 600)}, 10, true},
		"long":       {[]checkpoint.Part{part(-10*time.Minute, 0, 6000)}, 10, true}, // half of its time is in the window
		"former":     {[]checkpoint.Part{part(-20*time.Minute, -10*time.Minute, 6000), part(-5*time.Minute, 0, 300)}, 1, true},
		"of before":  {[]checkpoint.Part{{}}, 0, false},
		"ahead":      {[]checkpoint.Part{part(time.Minute, 2*time.Minute, 600)}, 10, true},
		"corrected":  {[]checkpoint.Part{corrected(part(-time.Minute, time.Hour, 600), 3600)}, 10, true},
		"behind":     {[]checkpoint.Part{corrected(part(-time.Minute, -time.Hour, 600), -3600)}, 10, true},
	} {
		if got, ok := rate(c.parts, noon); got != c.rate || ok != c.known {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
}
