package cutover

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

// What is known to be wrong passes no gate, whatever an operator says: a table that is not copied or not
// compared as a whole, and rows that were found to differ. An old result does.
func TestWhatNoOverridePasses(t *testing.T) {
	playScene(t, func(s *scene) {
		p := plan()
		for _, gate := range readiness.GateNames {
			p.Overrides = append(p.Overrides, checkpoint.CutoverOverride{Gate: gate, Reason: "known"})
		}
		for name, c := range map[string]struct {
			change func(st *checkpoint.TableState)
			open   []string
		}{
			"an old verify":  {func(st *checkpoint.TableState) { st.Verify.Result.EndedAt = s.Now().Add(-2 * time.Hour) }, nil},
			"rows differ":    {func(st *checkpoint.TableState) { st.Verify.Result.Extra = 1 }, []string{readiness.GateVerify}},
			"a sample":       {func(st *checkpoint.TableState) { st.Sampled.Differing = 1 }, []string{readiness.GateVerify}},
			"not copied":     {func(st *checkpoint.TableState) { st.NeedsLoad = true }, []string{readiness.GateCopy}},
			"never compared": {func(st *checkpoint.TableState) { st.Verify.Full = checkpoint.VerifyResult{} }, []string{readiness.GateFull}},
		} {
			before := s.Table("Parts")
			s.Change("Parts", c.change)
			gates, err := s.driver.Gates(s.Ctx, p, s.Now())
			s.Must(err)
			var open []string
			for _, g := range readiness.Open(gates) {
				open = append(open, g.Name)
			}
			if !slices.Equal(open, c.open) {
				t.Errorf("%s: open %v, want %v", name, open, c.open)
			}
			s.Change("Parts", func(st *checkpoint.TableState) {
				st.Verify, st.Sampled, st.NeedsLoad = before.Verify, before.Sampled, before.NeedsLoad
			})
		}
	})
}

// A verify that read nothing of a table that has items has read something else.
func TestAFinalVerifyOfNothing(t *testing.T) {
	playScene(t, func(s *scene) {
		s.final = func(string) checkpoint.VerifyResult {
			return checkpoint.VerifyResult{VerifyCounts: checkpoint.VerifyCounts{Items: -1}}
		}
		s.expect(s.play(plan()), checkpoint.CutoverCancelled, "the final verify read no item", FreezeWrites, UnfreezeWrites)
	})
}

// Items that were parked when the checks ended are left behind, where the gate or an operator allows
// that; others cancel.
func TestOnlyKnownItemsStayParked(t *testing.T) {
	for name, c := range map[string]struct {
		before, after []string
		step          checkpoint.CutoverStep
	}{
		"the same":    {[]string{"a", "b"}, []string{"a", "b"}, checkpoint.CutoverWatching},
		"one less":    {[]string{"a", "b"}, []string{"b"}, checkpoint.CutoverWatching},
		"another one": {[]string{"a", "b"}, []string{"a", "c"}, checkpoint.CutoverCancelled},
		"one more":    {nil, []string{"c"}, checkpoint.CutoverCancelled},
	} {
		playScene(t, func(s *scene) {
			s.parked["Parts"] = c.before
			s.answers(FreezeWrites, func(Call) (string, Outcome) { s.parked["Parts"] = c.after; return "", HookDone })
			p := plan()
			p.Overrides = []checkpoint.CutoverOverride{{Gate: readiness.GateParked, Reason: "known"}}
			if got := s.play(p); got.Step != c.step {
				t.Errorf("%s: %s, %s", name, got.Step, got.Reason)
			}
		})
	}
}

// A version drives what it began. What another one began it lets go, and watches.
func TestAnotherVersionDrivesNothing(t *testing.T) {
	of := func(began string, step checkpoint.CutoverStep) checkpoint.Cutover {
		return checkpoint.Cutover{Step: step, CutoverPlan: checkpoint.CutoverPlan{Version: began}}
	}
	for _, c := range []struct {
		own   string
		c     checkpoint.Cutover
		mayBe bool
	}{
		{"v2", of("v2", checkpoint.CutoverDrain), true}, {"v2", of("v1", checkpoint.CutoverDrain), false}, {"v2", of("v1", checkpoint.CutoverSwitching), false},
		{"v2", of("v1", checkpoint.CutoverCancelling), true}, {"v2", of("v1", checkpoint.CutoverWatching), true},
		{"", of("v1", checkpoint.CutoverDrain), true}, {"v2", of("", checkpoint.CutoverDrain), true},
	} {
		if err := (&Driver{Version: c.own}).mayDrive(c.c); (err == nil) != c.mayBe {
			t.Errorf("%q drives what %q began, at %s: %v", c.own, c.c.Version, c.c.Step, err)
		}
	}
	playScene(t, func(s *scene) {
		s.driver.Version = "v2"
		p := plan()
		p.Version = "v1"
		s.start(p)
		if c := s.driveFor(5 * time.Minute); c.Step != checkpoint.CutoverRequested || len(s.calls) > 0 || len(s.failed) == 0 {
			t.Errorf("%s after %v; failed %q", c.Step, s.calls, s.failed)
		}
		lease, err := s.Ledger.CoordinatorLease(s.Ctx, checkpoint.CutoverLease(""))
		s.Must(err)
		if lease.Owner() != "" {
			t.Error("it holds the lease of a driver, so that the right version cannot")
		}
	})
}

// A call ends when it is no longer wanted: a freeze that is cancelled, and a switch that is answered by an
// operator. What the operator says counts then.
func TestACallThatIsNoLongerWantedEnds(t *testing.T) {
	playScene(t, func(s *scene) {
		s.start(plan())
		s.drive(at(checkpoint.CutoverSwitching))
		s.takes = 8 * time.Minute
		s.silent(Switch)
		s.World.After(time.Minute, func() {
			s.World.Go("answer", func(context.Context) {
				s.takes = time.Second
				s.Must(s.Update(func(c *checkpoint.Cutover) error { return c.Resolve(true, s.Now()) }))
			})
		})
		began := s.Now()
		c := s.drive(settled)
		if took := s.Now().Sub(began); c.Step != checkpoint.CutoverWatching || took > 2*time.Minute {
			t.Errorf("%s after %s", c.Step, took)
		}
	})
}

// What a worker has read and committed just before it was halted is behind the position from which the
// last look begins: the shard's row tells of it.
func TestAChangeThatAWorkerReadBeforeTheHaltIsSeen(t *testing.T) {
	playScene(t, func(s *scene) {
		s.start(plan())
		s.drive(at(checkpoint.CutoverDrain))
		written := false
		s.Store.OnSwap = func(_ context.Context, key string, execute func() bool) (bool, error) {
			if key == "p/table/Parts" && !written && s.Cutover().Step == checkpoint.CutoverFence {
				written = true
				s.Must(s.Source.Put(s.Ctx, "Parts", kit.Item("forgotten")))
				s.Sleep(5 * time.Second)
			}
			return execute(), nil
		}
		got := s.drive(settled)
		if !strings.HasPrefix(got.Reason, "the application still writes: item hash of table Parts was changed at ") || got.Strays != 1 || len(s.called(Switch)) > 0 {
			t.Errorf("%s: %q, %d strays, the switch was called %d times", got.Step, got.Reason, got.Strays, len(s.called(Switch)))
		}
	})
}

// A change that the last look has read cancels, also if the note of it, or the cancel, is lost first.
func TestTheLastLookIsNotForgotten(t *testing.T) {
	for lost := range 4 { // writes of the record: the fence's numbers, the note, the cancel
		playScene(t, func(s *scene) {
			s.start(plan())
			s.drive(at(checkpoint.CutoverDrain))
			s.Store.OnSwap = func(_ context.Context, key string, execute func() bool) (bool, error) {
				done := execute()
				if key == "p/table/Parts" && s.Cutover().Step == checkpoint.CutoverFence {
					s.Sleep(5 * time.Second) // the tables are halted: no worker reads it
					s.Must(s.Source.Put(s.Ctx, "Parts", kit.Item("forgotten")))
					s.loses("p/cutover", lost)
				}
				return done, nil
			}
			got := s.drive(settled)
			if !strings.HasPrefix(got.Reason, "the application still writes: item ") || got.Strays != 1 || len(s.called(Switch)) > 0 {
				t.Errorf("write %d lost: %s: %q, %d strays, the switch was called %d times", lost, got.Step, got.Reason, got.Strays, len(s.called(Switch)))
			}
		})
	}
}
