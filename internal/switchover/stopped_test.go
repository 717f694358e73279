package switchover

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// An interrupt of a command that drives lets the application go first; one of a command that only
// follows leaves the cutover alone.
func TestAnInterrupt(t *testing.T) {
	for _, drives := range []bool{true, false} {
		playScene(t, func(s *scene) {
			if !drives {
				s.workers()
			}
			ctx, interrupt := context.WithCancelCause(s.Ctx)
			stop := errors.New("interrupted")
			s.World.Go("interrupt", func(context.Context) {
				for s.Cutover().Step != checkpoint.CutoverDrain {
					s.Sleep(100 * time.Millisecond)
				}
				interrupt(stop)
			})
			d, code := s.run(ctx, func(ctx context.Context, o *Operator) error { return o.Start(ctx, keep) })
			switch {
			case drives && (d.Step != "cancelled" || code != diag.CutoverCancelled || *d.Reason != "its driver was interrupted" || hooksOf(s.calls) != "freeze_writes unfreeze_writes"):
				t.Errorf("%s: %s after %v", code, d.Step, s.calls)
			case !drives && (d.Reason != nil || code != stop.Error()): // the workers go on
				t.Errorf("%s: %s after %v", code, d.Step, s.calls)
			}
			if drives {
				s.nobodyDrives()
			}
		})
	}
}

// nobodyDrives fails if somebody holds the driver's lease: another command would wait for its end.
func (s *scene) nobodyDrives() {
	s.Helper()
	lease, err := s.Ledger.CoordinatorLease(s.Ctx, checkpoint.CutoverLease(""))
	s.Must(err)
	if lease.Owner() != "" {
		s.Errorf("%s holds the driver's lease", lease.Owner())
	}
}

// A command that drives and is interrupted while the switch is unknown cancels nothing, for the
// application may have switched. It calls on for two minutes, and then leaves the cutover to
// others.
func TestAnInterruptOfASwitch(t *testing.T) {
	playScene(t, func(s *scene) {
		s.compared()
		ctx, interrupt := context.WithCancelCause(s.Ctx)
		stop, at := errors.New("interrupted"), time.Time{}
		s.hook = func(call cutover.Call) (string, cutover.Outcome) {
			if call.Hook != cutover.Switch || call.Probe {
				return "", cutover.HookDone
			}
			if at.IsZero() {
				at = s.Now()
				interrupt(stop)
			}
			return "no answer", cutover.HookUnknown
		}
		d, code := s.run(ctx, func(ctx context.Context, o *Operator) error { return o.Start(ctx, keep) })
		if waited := s.Now().Sub(at); code != stop.Error() || d.Step != "switching" || waited < interruptGrace || waited > interruptGrace+time.Minute || len(s.calls) < 10 {
			t.Errorf("%q: %s after %s and %d calls", code, d.Step, waited, len(s.calls))
		}
	})
}

// A question may be answered late: the attempt begins with the answer, and expires as late as it
// was asked for.
func TestAQuestionThatIsAnsweredLate(t *testing.T) {
	playScene(t, func(s *scene) {
		var answered time.Time
		_, code := s.run(s.Ctx, func(ctx context.Context, o *Operator) error {
			o.Confirm = func(context.Context, string) error {
				s.Sleep(5 * time.Minute)
				answered = s.Now()
				return nil
			}
			return o.Start(ctx, Request{KeepFallback: "no", Expires: time.Hour})
		})
		if c := s.Cutover(); code != "" || c.BegunAt.Before(answered) || !c.Approved || c.Expires.Before(answered.Add(50*time.Minute)) {
			t.Errorf("%q: begun at %v, answered at %v, expires %v", code, c.BegunAt, answered, c.Expires)
		}
	})
}

// Where the hooks cannot be called from here either, nothing is begun.
func TestHooksThatCannotBeCalled(t *testing.T) {
	playScene(t, func(s *scene) {
		s.hook = func(cutover.Call) (string, cutover.Outcome) { return "404", cutover.HookUnknown }
		_, code := s.start(keep)
		if c := s.Cutover(); code != diag.HookFailed || c.Step != checkpoint.CutoverCancelled || c.Reason != "neither a worker nor this command can call the hooks" || len(s.calls) > 0 {
			t.Errorf("%s: %s, %s", code, c.Step, c.Reason)
		}
	})
}
