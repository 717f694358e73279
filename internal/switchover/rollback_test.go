package switchover

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
)

// follows puts the cutover after a switch with a way back that is ready for a rollback.
func (s *scene) follows(change func(f *checkpoint.Fallback)) {
	s.Helper()
	s.stands(checkpoint.CutoverWatching)
	s.Must(s.Update(func(c *checkpoint.Cutover) error {
		c.WayBack, c.KeepFallback, c.FencedAt = true, true, s.Now()
		return nil
	}))
	for _, source := range []string{"Orders", "Parts"} {
		_, err := s.Ledger.UpdateFallback(s.Ctx, source, 0, func(f *checkpoint.Fallback) error {
			*f = checkpoint.Fallback{Source: source, Attempt: 1, State: checkpoint.FallbackFollowing, Led: s.Now().Add(-time.Hour), Wait: 8 * time.Minute, SavedAt: s.Now(), Settled: s.Now()}
			change(f)
			return nil
		})
		s.Must(err)
	}
}

func (s *scene) rollBack(u Undoing) (*Document, error) {
	s.Helper()
	return s.told(func(ctx context.Context, o *Operator) error { return o.Rollback(ctx, u) })
}

func ready(*checkpoint.Fallback) {}

// A rollback is asked for by an answer or by --yes, and the record has what was asked for.
func TestARollbackIsAskedFor(t *testing.T) {
	playScene(t, func(s *scene) {
		s.follows(func(f *checkpoint.Fallback) {
			if f.Source == "Parts" {
				f.Parked = 2
			}
		})
		if _, err := s.rollBack(Undoing{Overrides: []string{readiness.GateCarried}, Reason: "known"}); err != nil {
			t.Fatal(err)
		}
		c := s.Cutover()
		r := c.Undo()
		if want := []string{"Stop the application's writes, and move it back to DynamoDB? Another cutover then begins with a load"}; !slices.Equal(s.asked, want) {
			t.Errorf("asked %q", s.asked)
		}
		if r.Step != checkpoint.CutoverChecks || r.Attempt != 2 || r.Version != "1.2.3" || !strings.HasPrefix(r.CutoverPlan.By, "cutover-") || r.WatchFor != 5*time.Minute || len(r.Overrides) != 1 ||
			r.Overrides[0] != (checkpoint.CutoverOverride{Gate: readiness.GateCarried, Reason: "known"}) || r.FreezeDeadline != s.Config.Cutover.RollbackDeadline || !strings.Contains(r.Timeline[0].Text, r.CutoverPlan.By) {
			t.Errorf("%+v", r.CutoverPlan)
		}
		if len(s.calls) > 0 {
			t.Errorf("calls %v", s.calls)
		}
		if _, err := s.rollBack(Undoing{Yes: true}); !diag.Has(err, diag.CutoverRefused) {
			t.Errorf("a second one: %v", err)
		}
	})
	playScene(t, func(s *scene) {
		s.follows(ready)
		if _, err := s.rollBack(Undoing{Yes: true}); err != nil || len(s.asked) > 0 || !s.rolling() {
			t.Errorf("%v, asked %q", err, s.asked)
		}
	})
}

func (s *scene) rolling() bool {
	c := s.Cutover()
	return c.RollingBack()
}

// What is refused changes nothing: options without a meaning, a gate that is not ready, a cutover that
// cannot be moved back, nobody to ask, and an answer that is not yes.
func TestRollbacksThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(s *scene)
		undo  Undoing
		asks  bool // there is a terminal
		code  string
		cause string
	}{
		"an override without a reason": {nil, Undoing{Yes: true, Overrides: []string{readiness.GateCarried}, Reason: " "}, true, diag.Usage, "--override needs a --reason"},
		"a reason without an override": {nil, Undoing{Yes: true, Reason: "x"}, true, diag.Usage, "--reason needs --override"},
		"another gate":                 {nil, Undoing{Yes: true, Overrides: []string{readiness.GateLeader}, Reason: "x"}, true, diag.Usage, "can only override the gate carried"},
		"nobody to ask":                {nil, Undoing{}, false, diag.Usage, "there is no terminal"},
		"the answer is no":             {func(s *scene) { s.answer = errors.New("no") }, Undoing{}, true, "", "no"},
		"a gate": {func(s *scene) {
			s.follows(func(f *checkpoint.Fallback) {
				if f.Source == "Parts" {
					f.State, f.Reason = checkpoint.FallbackGap, "trimmed"
				}
			})
		}, Undoing{Yes: true}, true, diag.CutoverNotReady, "the rollback is not ready: 1 gate"},
		"an override of another gate than the open one": {func(s *scene) { s.follows(func(f *checkpoint.Fallback) { f.Led = s.Now() }) },
			Undoing{Yes: true, Overrides: []string{readiness.GateCarried}, Reason: "x"}, true, diag.CutoverNotReady, "the rollback is not ready: 1 gate of p: not met: [leader]"},
		"without a way back": {func(s *scene) { s.stands(checkpoint.CutoverWatching) }, Undoing{Yes: true}, true, diag.CutoverRefused, "without a way back"},
		"ended": {func(s *scene) {
			s.follows(ready)
			s.Must(s.Update(func(c *checkpoint.Cutover) error { c.FallbackEndedAt = s.Now(); return nil }))
		}, Undoing{Yes: true}, true, diag.CutoverRefused, "an operator ended the way back"},
		"done": {func(s *scene) { s.stands(checkpoint.CutoverDone) }, Undoing{Yes: true}, true, diag.CutoverRefused, "it is at step done"},
		"never": {func(s *scene) {
			s.Must(s.Update(func(c *checkpoint.Cutover) error { *c = checkpoint.Cutover{}; return nil }))
		}, Undoing{Yes: true}, true, diag.CutoverRefused, ""},
	} {
		t.Run(name, func(t *testing.T) {
			playScene(t, func(s *scene) {
				s.follows(ready)
				if c.set != nil {
					c.set(s)
				}
				before := s.Cutover()
				_, err := s.told(func(ctx context.Context, o *Operator) error {
					if !c.asks {
						o.Confirm = nil
					}
					return o.Rollback(ctx, c.undo)
				})
				if err == nil || c.code != "" && !diag.Has(err, c.code) || !strings.Contains(err.Error(), c.cause) {
					t.Errorf("%v, want %s: %q", err, c.code, c.cause)
				}
				if after := s.Cutover(); after.Rollback != nil || after.Step != before.Step || len(s.calls) > 0 {
					t.Errorf("%+v after %v", after.Rollback, s.calls)
				}
			})
		})
	}
}

// told is like run, and returns the error itself.
func (s *scene) told(command func(ctx context.Context, o *Operator) error) (d *Document, failed error) {
	s.Helper()
	d, _ = s.run(s.Ctx, func(ctx context.Context, o *Operator) error { failed = command(ctx, o); return failed })
	return d, failed
}

// A dry run shows the gates and probes the hooks of a rollback, and begins nothing.
func TestADryRunOfARollback(t *testing.T) {
	playScene(t, func(s *scene) {
		s.follows(ready)
		var probed []string
		fails := ""
		s.hook = func(call cutover.Call) (string, cutover.Outcome) {
			if call.Probe {
				probed = append(probed, call.Direction+" "+call.Hook)
			}
			if call.Hook == fails {
				return "404", cutover.HookUnknown
			}
			return "", cutover.HookDone
		}
		d, err := s.rollBack(Undoing{DryRun: true})
		if want := []string{"back freeze_writes", "back switch", "back unfreeze_writes"}; err != nil || !slices.Equal(probed, want) || s.rolling() || len(s.asked)+len(s.calls) > 0 || !d.CanRollBack.Ready {
			t.Errorf("%v: probed %q, asked %q, %+v", err, probed, s.asked, d.CanRollBack)
		}
		for _, g := range d.Gates { // of the rollback, and not of the cutover before it
			if !slices.Contains(readiness.WayBackGates, g.Name) {
				t.Errorf("gate %s is shown", g.Name)
			}
		}
		if len(d.Gates) == 0 {
			t.Error("no gate is shown")
		}
		fails = cutover.UnfreezeWrites
		if _, err = s.rollBack(Undoing{DryRun: true}); err == nil || !strings.Contains(err.Error(), "unfreeze_writes") {
			t.Errorf("a hook that does not answer: %v", err)
		}
	})
	playConfig(t, "", func(s *scene) { // without hooks of a rollback, nothing is opened
		o := s.operator()
		o.parse = nil
		if err := o.Rollback(s.Ctx, Undoing{Yes: true}); !diag.Has(err, diag.MissingValue) || s.open != 0 {
			t.Errorf("%v", err)
		}
	})
}

// The command ends a way back after a question, and waits until the leaders have stopped.
func TestTheCommandEndsAWayBack(t *testing.T) {
	end := func(yes bool) func(ctx context.Context, o *Operator) error {
		return func(ctx context.Context, o *Operator) error { return o.EndFallback(ctx, yes) }
	}
	playScene(t, func(s *scene) {
		s.follows(ready)
		s.answer = errors.New("no")
		if _, err := s.told(end(false)); err == nil || len(s.asked) != 1 || !strings.HasPrefix(s.asked[0], "End the way back of ") {
			t.Errorf("%v, asked %q", err, s.asked)
		}
		if _, err := s.told(func(ctx context.Context, o *Operator) error { o.Confirm = nil; return o.EndFallback(ctx, false) }); !diag.Has(err, diag.Usage) {
			t.Errorf("nobody to ask: %v", err)
		}
		if f, _, err := s.Ledger.Fallback(s.Ctx, "Orders"); err != nil || f.State != checkpoint.FallbackFollowing {
			t.Fatalf("%s, %v", f.State, err)
		}
		s.World.After(20*time.Second, func() {
			for _, source := range []string{"Orders", "Parts"} {
				_, err := s.Ledger.UpdateFallback(s.Ctx, source, 0, func(f *checkpoint.Fallback) error { f.State = checkpoint.FallbackStopped; return nil })
				s.Must(err)
			}
		})
		began := s.Now()
		_, err := s.told(end(true))
		c := s.Cutover()
		if err != nil || c.FallbackEndedAt.Sub(began) < 20*time.Second || strings.Count(s.stderr.String(), "waiting: table Orders: its leader has not stopped yet") == 0 {
			t.Errorf("%v: %v\n%s", err, c.FallbackEndedAt, &s.stderr)
		}
	})
	playScene(t, func(s *scene) {
		s.stands(checkpoint.CutoverWatching)
		if _, err := s.told(end(true)); !diag.Has(err, diag.CutoverRefused) {
			t.Errorf("without one: %v", err)
		}
	})
}
