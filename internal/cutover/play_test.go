package cutover

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

// scene is a cutover of the kit's migration, with hooks and a final verify that answer as a test
// says.
type scene struct {
	*kit.Migration
	calls []string // of hooks: name, token, step
	hook  func(call Call) (string, Outcome)
	takes time.Duration // a call
	final func(source string) checkpoint.VerifyResult
	begun []string // final verifies of the workers
	alone []string // tables that the driver compared
	// full, if not zero, is what a verify of the workers finds, and sample what one of the driver.
	full, sample checkpoint.VerifyCounts
	samples      int
	parked       map[string][]string
	failed       []string
	said         []string // steps
	driver       *Driver
}

// playScene plays a script with a scene in which every call does what it is there for.
func playScene(t *testing.T, script func(s *scene)) {
	t.Helper()
	kit.Play(t, kit.Parse(t, ""), func(m *kit.Migration) {
		s := &scene{Migration: m, takes: time.Second, parked: map[string][]string{}}
		s.hook = func(Call) (string, Outcome) { return "", HookDone }
		s.final = func(string) checkpoint.VerifyResult { return checkpoint.VerifyResult{} }
		s.driver = &Driver{
			Ledger: m.Ledger, Fence: fence.Fence{Ledger: m.Ledger, Families: m.Target}, Hooks: s, Source: m.Source, Open: m.Source.Open, Verifier: s,
			Parked:   func(_ context.Context, table string) ([]string, error) { return s.parked[table], nil },
			Settings: Settings{Ready: readiness.Limits{LagBelow: 5 * time.Second, VerifyWithin: time.Hour, HeadroomAbove: 12 * time.Hour}, Pass: 2 * time.Second},
			OnStep:   func(c checkpoint.Cutover) { s.said = append(s.said, string(c.Step)) },
			Failed:   func(step string, err error) { s.failed = append(s.failed, step+": "+err.Error()) },
		}
		script(s)
	})
}

// Call is a hook's call.
func (s *scene) Call(ctx context.Context, call Call) (string, Outcome) {
	if !call.Probe {
		s.calls = append(s.calls, call.Hook+" "+call.Token+" "+call.Step)
	}
	_ = task.Sleep(ctx, s.takes)
	return s.hook(call)
}

// silent answers nothing to calls of a hook: each is unknown when its time is up.
func (s *scene) silent(name string) {
	s.answers(name, func(Call) (string, Outcome) { return "its time was up", HookUnknown })
}

// answers lets calls of a hook be answered so, but for probes.
func (s *scene) answers(name string, with func(call Call) (string, Outcome)) {
	before := s.hook
	s.hook = func(call Call) (string, Outcome) {
		if call.Hook == name && !call.Probe {
			return with(call)
		}
		return before(call)
	}
}

// Begin begins a final verify, which workers end a quarter of a minute later.
func (s *scene) Begin(ctx context.Context, state checkpoint.TableState) (uint32, error) {
	begun, err := s.Ledger.BeginVerify(ctx, state, checkpoint.VerifyPlan{Plan: []byte("{}"), Phase: 1, Parts: 1, BegunAt: s.Now(), MappingHash: state.MappingHash})
	if err != nil {
		return 0, err
	}
	s.begun = append(s.begun, state.Source)
	s.World.Go("verify "+state.Source, func(ctx context.Context) {
		_ = task.Sleep(ctx, 15*time.Second)
		r := s.final(state.Source)
		if s.full != (checkpoint.VerifyCounts{}) {
			r.VerifyCounts = s.full
		}
		switch r.Items {
		case 0:
			r.Items = 1000
		case -1: // stands for none
			r.Items = 0
		}
		r.BegunAt, r.EndedAt = begun.Verify.BegunAt, s.Now()
		_, _ = s.Ledger.EndVerify(ctx, begun, r)
	})
	return begun.Verify.Number, nil
}

// Sample compares a few items of a large table.
func (s *scene) Sample(ctx context.Context, _ checkpoint.TableState, items int) (checkpoint.VerifyResult, error) {
	s.samples++
	_ = task.Sleep(ctx, time.Second)
	r := checkpoint.VerifyResult{VerifyCounts: s.sample, EndedAt: s.Now()}
	r.Compared = int64(items)
	return r, ctx.Err()
}

// Reverse compares the items of a table with its rows after the switch.
func (s *scene) Reverse(ctx context.Context, source string) (checkpoint.ReverseResult, error) {
	r, err := s.Compare(ctx, checkpoint.TableState{Source: source})
	return checkpoint.ReverseResult{BeganAt: r.BegunAt, EndedAt: r.EndedAt, Different: r.Differing()}, err
}

// Compare compares a small table.
func (s *scene) Compare(ctx context.Context, state checkpoint.TableState) (checkpoint.VerifyResult, error) {
	s.alone = append(s.alone, state.Source)
	slices.Sort(s.alone) // they run side by side
	began := s.Now()
	_ = task.Sleep(ctx, time.Second)
	r := s.final(state.Source)
	switch r.Items {
	case 0:
		r.Items = 1000
	case -1: // stands for none
		r.Items = 0
	}
	r.Generation, r.BegunAt, r.EndedAt = state.Generation, began, s.Now()
	return r, ctx.Err()
}

func plan() checkpoint.CutoverPlan {
	return checkpoint.CutoverPlan{Tables: []string{"Orders", "Parts"}, Targets: []string{"orders", "parts"}, Approved: true, WatchFor: 24 * time.Hour,
		FreezeAtMost: time.Hour, // tests of single steps let them last
		FreezeWithin: time.Minute, FreezeDeadline: 10 * time.Minute}
}

// brief is a plan whose tries freeze the application for a few seconds.
func brief(tries int) checkpoint.CutoverPlan {
	p := plan()
	p.FreezeAtMost, p.Tries = 8*time.Second, tries
	return p
}

func (s *scene) start(p checkpoint.CutoverPlan) {
	s.Helper()
	s.Must(s.Update(func(c *checkpoint.Cutover) error { return c.Start(p, s.Now()) }))
}

// drive drives until a pass ends whose record was as until says, for half an hour at most.
func (s *scene) drive(until func(c checkpoint.Cutover) bool) checkpoint.Cutover {
	s.Helper()
	return s.run(30*time.Minute, until)
}

// driveFor drives for a time, as a worker does.
func (s *scene) driveFor(d time.Duration) checkpoint.Cutover {
	s.Helper()
	return s.run(d, nil)
}

func (s *scene) run(d time.Duration, until func(c checkpoint.Cutover) bool) checkpoint.Cutover {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Ctx)
	defer cancel()
	s.World.After(d, cancel)
	over := until
	if until != nil { // once it was so
		was := false
		over = func(c checkpoint.Cutover) bool { was = was || until(c); return was }
	}
	s.Must(s.driver.Run(ctx, over))
	return s.Cutover()
}

// play starts and drives until the attempt is over, or has switched.
func (s *scene) play(p checkpoint.CutoverPlan) checkpoint.Cutover {
	s.Helper()
	s.start(p)
	return s.drive(settled)
}

// refuseInFence makes changes of families fail in step fence.
func (s *scene) refuseInFence(with func(change string) error) {
	s.Target.Refuse = func(change string) error {
		if s.Cutover().Step != checkpoint.CutoverFence {
			return nil
		}
		return with(change)
	}
}

func settled(c checkpoint.Cutover) bool { return c.Step.Over() || c.Step.Switched() }

// at reports whether a pass began in a step.
func at(step checkpoint.CutoverStep) func(checkpoint.Cutover) bool {
	return func(c checkpoint.Cutover) bool { return c.Step == step }
}

// lastCheck reports whether the last pass of the checks has ended, and no other has begun.
func (s *scene) lastCheck(c checkpoint.Cutover) bool {
	return c.Step == checkpoint.CutoverChecks && s.Cutover().Step == checkpoint.CutoverFreeze
}

// steps are those of the timeline, each once.
func steps(c checkpoint.Cutover) string {
	var names []string
	for _, e := range c.Timeline {
		if n := len(names); n == 0 || names[n-1] != e.Step {
			names = append(names, e.Step)
		}
	}
	return strings.Join(names, " ")
}

// expect compares what a scene came to: the step, why it was cancelled, and the hooks that were
// called.
func (s *scene) expect(c checkpoint.Cutover, step checkpoint.CutoverStep, reason string, hooks ...string) {
	s.Helper()
	var called []string
	for _, call := range s.calls {
		name, _, _ := strings.Cut(call, " ")
		called = append(called, name)
	}
	if c.Step != step || !strings.Contains(c.Reason, reason) || reason == "" && c.Reason != "" || fmt.Sprint(called) != fmt.Sprint(hooks) {
		s.Errorf("%s because of %q after %v; want %s because of %q after %v", c.Step, c.Reason, s.calls, step, reason, hooks)
	}
}

// tablesGoOn reports whether nothing halts a table, and each target has a number that can be
// written under.
func (s *scene) tablesGoOn() bool {
	for _, source := range plan().Tables {
		if state := s.Table(source); state.Halted() {
			return false
		}
	}
	for _, target := range plan().Targets {
		t, _, err := s.Ledger.Target(s.Ctx, target)
		s.Must(err)
		if mark := fence.MarkOf(s.Ledger, t); !strings.Contains(strings.Join(s.Target.Families[target], " "), mark.Family) {
			return false
		}
	}
	return true
}
