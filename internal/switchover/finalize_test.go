package switchover

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// Idle processes are no reason to refuse a finalize, which changes nothing for them. All others are
// named, until they idle or are gone: those of a version that does not know idle, too.
func TestFinalizeBesideProcesses(t *testing.T) {
	playScene(t, func(s *scene) {
		s.stands(checkpoint.CutoverDone)
		s.StopWorker()
		s.Sleep(5 * time.Minute)
		var refusal *diag.Error
		refused := func(when, cause string) {
			t.Helper()
			refusal = nil
			s.stdout.Reset()
			err := s.operator().Finalize(s.Ctx, Finalizing{DryRun: true})
			if errors.As(err, &refusal); (refusal != nil) != (cause != "") || refusal != nil && (refusal.Code != diag.FinalizeRefused || !strings.Contains(refusal.Cause, cause)) {
				t.Errorf("%s: %v, want %q", when, err, cause)
			}
		}
		idle, old, late := s.Open("idle"), s.Open("old"), s.Open("late")
		s.Must(idle.ShowProcess(s.Ctx, checkpoint.RoleIdle))
		refused("an idle process", "")
		if d, _ := s.run(s.Ctx, func(ctx context.Context, o *Operator) error { return o.Show(ctx) }); d.Idle != 1 {
			t.Errorf("%d workers idle, want 1", d.Idle)
		}
		s.Must(late.ShowProcess(s.Ctx, checkpoint.RoleStandby))
		s.Must(old.ShowProcess(s.Ctx, checkpoint.RoleStandby))
		refused("two others", "not idle: late, old.")
		if d, _ := s.run(s.Ctx, func(ctx context.Context, o *Operator) error { return o.Show(ctx) }); d.Idle != 1 {
			t.Errorf("beside two others %d workers idle, want 1", d.Idle)
		}
		s.Must(late.ShowProcess(s.Ctx, checkpoint.RoleIdle))
		refused("one idles", "not idle: old.")
		s.Must(old.RemoveProcess(s.Ctx))
		refused("the other is gone", "")
		s.Must(old.ShowProcess(s.Ctx, checkpoint.RoleStandby))
		s.Sleep(3*s.Config.State.Lease + time.Second)
		refused("it was killed", "")
		s.Must(idle.ShowProcess(s.Ctx, checkpoint.RoleIdle))
		if _, code := s.run(s.Ctx, func(ctx context.Context, o *Operator) error { return o.Finalize(ctx, Finalizing{Yes: true}) }); code != "" || !s.Cutover().Step.Switched() {
			t.Errorf("%q: %+v", code, s.Cutover())
		}
	})
}

// The leader of a fallback needs the witness in replicator's family. Finalize waits until it has
// stopped, and names the command that stops it.
func TestFinalizeBesideAFallback(t *testing.T) {
	playScene(t, func(s *scene) {
		s.stands(checkpoint.CutoverWatching)
		s.StopWorker()
		s.Sleep(5 * time.Minute)
		refused := func(when, cause string) {
			t.Helper()
			var refusal *diag.Error
			s.stdout.Reset()
			err := s.operator().Finalize(s.Ctx, Finalizing{DryRun: true})
			if errors.As(err, &refusal); (refusal != nil) != (cause != "") || refusal != nil && (refusal.Code != diag.FinalizeRefused || !strings.Contains(refusal.Cause, cause) || !strings.Contains(refusal.Fix, "cutover end-fallback")) {
				t.Errorf("%s: %v, want %q", when, err, cause)
			}
		}
		s.Must(s.Update(func(c *checkpoint.Cutover) error { c.WayBack = true; return nil }))
		refused("following", "DynamoDB follows Bigtable")
		s.Must(s.Update(func(c *checkpoint.Cutover) error { c.Denial.Left = true; return nil }))
		var denies *diag.Error
		if err := s.operator().Finalize(s.Ctx, Finalizing{}); !errors.As(err, &denies) || !strings.Contains(denies.Fix, "lets the policies of the tables accept writes again") {
			t.Errorf("while policies deny writes: %v", err)
		}
		s.Must(s.Update(func(c *checkpoint.Cutover) error {
			c.Step, c.FallbackEndedAt = checkpoint.CutoverDone, s.Now()
			return nil
		}))
		for _, state := range []checkpoint.FallbackState{checkpoint.FallbackStandby, checkpoint.FallbackFollowing, checkpoint.FallbackStopping, checkpoint.FallbackGap, checkpoint.FallbackStopped} {
			_, err := s.Ledger.UpdateFallback(s.Ctx, "Parts", 0, func(f *checkpoint.Fallback) error { f.Attempt, f.State = 1, state; return nil })
			s.Must(err)
			if cause := "the fallback of table Parts has not stopped yet"; state != checkpoint.FallbackStopped {
				refused(string(state), cause)
			} else {
				refused(string(state), "")
			}
		}
		// An attempt that was cancelled has never written, and its fallback may never be stopped.
		_, err := s.Ledger.UpdateFallback(s.Ctx, "Parts", 0, func(f *checkpoint.Fallback) error {
			f.Attempt, f.State = 0, checkpoint.FallbackStopping
			return nil
		})
		s.Must(err)
		refused("of a cancelled attempt", "")
		// What the policies may still deny is for the operator to remove.
		s.Must(s.Update(func(c *checkpoint.Cutover) error { c.ByPolicy = true; return nil }))
		s.stdout.Reset()
		s.Must(s.operator().Finalize(s.Ctx, Finalizing{DryRun: true}))
		for _, want := range []string{"in the resource policy of table Parts, which may still deny writes", "the probe's role "} {
			if !strings.Contains(s.stdout.String(), want) {
				t.Errorf("%q is missing in %s", want, &s.stdout)
			}
		}
	})
}
