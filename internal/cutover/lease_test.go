package cutover

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Without hooks only a rehearsal is driven, and with hooks only after a probe of each was answered.
func TestWhoDrives(t *testing.T) {
	playScene(t, func(s *scene) {
		s.start(plan())
		s.driver.Hooks = nil
		if c := s.driveFor(time.Minute); c.Step != checkpoint.CutoverRequested {
			t.Errorf("without hooks it is driven to %s", c.Step)
		}
		s.driver.Hooks = s
		s.hook = func(call Call) (string, Outcome) {
			if call.Hook == UnfreezeWrites {
				return "404 Not Found", HookUnknown
			}
			return "", HookDone
		}
		if c := s.driveFor(time.Minute); c.Step != checkpoint.CutoverRequested || len(s.calls) > 0 {
			t.Errorf("though a hook cannot be called it is driven to %s: %v", c.Step, s.calls)
		}
		if len(s.failed) < 2 || !strings.Contains(s.failed[0], "hook unfreeze_writes: unknown: 404 Not Found") {
			t.Errorf("failed: %q", s.failed)
		}
		lease, err := s.Ledger.CoordinatorLease(s.Ctx, checkpoint.CutoverLease(""))
		s.Must(err)
		if lease.Owner() != "" {
			t.Errorf("%s holds the driver's lease", lease.Owner())
		}
	})
}

// One drives at a time, and the next one takes over from whoever is gone, at the step where it was.
func TestADriverIsTakenOver(t *testing.T) {
	playScene(t, func(s *scene) {
		other := s.Open("other")
		lease, err := other.CoordinatorLease(s.Ctx, checkpoint.CutoverLease(""))
		s.Must(err)
		held, err := other.TakeCoordinatorLease(s.Ctx, lease)
		s.Must(err)
		s.World.Go("hold the lease", func(context.Context) {
			for range 10 {
				s.Sleep(5 * time.Second)
				_ = held.Renew(s.Ctx)
			}
		})
		s.start(plan())
		began, probes := s.Now(), 0
		s.hook = func(call Call) (string, Outcome) {
			if call.Probe {
				probes++
			}
			return "", HookDone
		}
		c := s.drive(at(checkpoint.CutoverFreeze))
		if probes != len(HookNames) {
			t.Errorf("%d probes are sent while another process drives", probes)
		}
		if waited := s.Now().Sub(began); waited < 50*time.Second || waited > 2*time.Minute {
			t.Errorf("it drives after %s", waited)
		}
		s.expect(c, checkpoint.CutoverDrain, "", FreezeWrites)
		s.driver.Ledger = s.Open("third")
		c = s.drive(settled)
		s.expect(c, checkpoint.CutoverWatching, "", FreezeWrites, Switch)
	})
}

// Without a cutover nothing is written, and the ledger is read every five seconds: every worker
// waits so, for months.
func TestNothingToDrive(t *testing.T) {
	playScene(t, func(s *scene) {
		reads, writes := 0, 0
		s.Store.OnRead = func(_ context.Context, prefix string) error {
			if prefix == "p/cutover" || strings.HasPrefix(prefix, "p/keeper/") {
				reads++
			}
			return nil
		}
		s.Store.OnSwap = func(_ context.Context, key string, execute func() bool) (bool, error) {
			if key == "p/cutover" || strings.HasPrefix(key, "p/keeper/") {
				writes++
			}
			return execute(), nil
		}
		if s.driveFor(10 * time.Minute); reads > 121 || writes > 0 || len(s.failed) > 0 {
			t.Errorf("%d reads and %d writes; failed: %q", reads, writes, s.failed)
		}
		away := true
		s.Store.OnRead = func(_ context.Context, prefix string) error {
			return map[bool]error{true: errAway}[away && prefix == "p/cutover"]
		}
		s.World.After(time.Minute-1, func() { away = false })
		if s.driveFor(time.Minute); len(s.failed) != 12 {
			t.Errorf("in a minute in which the ledger cannot be read: %q", s.failed)
		}
	})
}

// Two that find the lease free at the same time: the slower one neither drives nor reports that as
// a failure.
func TestTwoDriversBegin(t *testing.T) {
	playScene(t, func(s *scene) {
		other, taken := s.Open("other"), false
		s.Store.OnSwap = func(_ context.Context, key string, execute func() bool) (bool, error) {
			if strings.HasPrefix(key, "p/keeper/") && !taken {
				taken = true
				lease, err := other.CoordinatorLease(s.Ctx, checkpoint.CutoverLease(""))
				s.Must(err)
				_, err = other.TakeCoordinatorLease(s.Ctx, lease)
				s.Must(err)
			}
			return execute(), nil
		}
		s.start(plan())
		if c := s.driveFor(5 * time.Second); !taken || c.Step != checkpoint.CutoverRequested || len(s.failed) > 0 {
			t.Errorf("taken %t; %s; failed: %q", taken, c.Step, s.failed)
		}
	})
}

// A driver that cannot renew its lease calls no hook: another one may drive by then.
func TestWithoutTheLeaseNoHookIsCalled(t *testing.T) {
	playScene(t, func(s *scene) {
		s.start(plan())
		s.drive(s.lastCheck)
		taken := false
		s.Store.OnSwap = func(_ context.Context, key string, do func() bool) (bool, error) {
			if !strings.HasPrefix(key, "p/keeper/") {
				return do(), nil
			}
			if taken {
				return false, nil
			}
			taken = true
			return do(), nil
		}
		c := s.driveFor(5 * time.Second)
		s.Store.OnSwap = nil
		if !taken || c.Step != checkpoint.CutoverFreeze || len(s.calls) > 0 {
			t.Errorf("lease taken: %t; %s after %v", taken, c.Step, s.calls)
		}
	})
}
