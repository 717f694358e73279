package cutover

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
)

// No step of a cutover decides on rows, records or answers that it could not read.
func TestNothingIsDecidedOnWhatIsNotRead(t *testing.T) {
	away := errors.New("away")
	for name, step := range map[string]func(ctx context.Context, v *drive, c checkpoint.Cutover) error{
		"the rows of all tables": func(ctx context.Context, v *drive, c checkpoint.Cutover) error {
			_, err := v.rowsOfAll(ctx, c)
			return err
		},
		"whether a try is disturbed": func(ctx context.Context, v *drive, c checkpoint.Cutover) error {
			_, err := v.stillDisturbed(ctx, c, c.FrozenAt)
			return err
		},
		"the writers": func(ctx context.Context, v *drive, c checkpoint.Cutover) error {
			_, err := v.disturbed(ctx, c, make([]readiness.Figures, len(c.Tables)))
			return err
		},
		"a final comparison": func(ctx context.Context, v *drive, c checkpoint.Cutover) error {
			_, err := v.final(ctx, c, "Orders", c.FrozenAt)
			return err
		},
		"whether it is wanted": func(ctx context.Context, v *drive, c checkpoint.Cutover) error { return v.stillWanted(ctx, c) },
		"no moment":            func(ctx context.Context, v *drive, c checkpoint.Cutover) error { return v.noMoment(ctx, c, "why") },
	} {
		playScene(t, func(s *scene) {
			v := &drive{Driver: s.driver, settings: s.driver.Settings.orDefault(), finals: finals{compared: map[string]checkpoint.VerifyResult{}}}
			c := checkpoint.Cutover{CutoverPlan: plan(), Attempt: 1, Step: checkpoint.CutoverDrain, FrozenAt: s.Now(), StepAt: s.Now()}
			s.Must(s.Update(func(now *checkpoint.Cutover) error { *now = c; return nil }))
			s.Store.OnRead = func(context.Context, string) error { return away }
			err := step(s.Ctx, v, c)
			s.Store.OnRead = nil
			if !errors.Is(err, away) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// A hook is no longer wanted once its attempt or its step has ended.
func TestWhetherAHookIsStillWanted(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *checkpoint.Cutover)
		wanted bool
	}{
		"as it was":       {func(*checkpoint.Cutover) {}, true},
		"another step":    {func(c *checkpoint.Cutover) { c.Step = checkpoint.CutoverCancelling }, false},
		"another attempt": {func(c *checkpoint.Cutover) { c.Attempt++ }, false},
		"an answer":       {func(c *checkpoint.Cutover) { c.Answer = "yes" }, false},
	} {
		playScene(t, func(s *scene) {
			of := checkpoint.Cutover{CutoverPlan: plan(), Attempt: 3, Step: checkpoint.CutoverSwitching}
			s.Must(s.Update(func(now *checkpoint.Cutover) error { *now = of; c.change(now); return nil }))
			if err := (&drive{Driver: s.driver}).stillWanted(s.Ctx, of); (err == nil) != c.wanted || err != nil && !errors.Is(err, checkpoint.ErrMoved) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
}

// A wrapper of hooks that keeps a token for each group says so when it is probed. Every other hook
// is named. A hook that cannot be called is not.
func TestWhichHooksKnowNoGroups(t *testing.T) {
	playScene(t, func(s *scene) {
		s.takes = 0
		var probes []Call
		s.hook = func(call Call) (string, Outcome) {
			probes = append(probes, call)
			switch call.Hook {
			case HookNames[0]:
				return "ready\ngroups\n", HookDone
			case HookNames[1]:
				return "no such file", HookUnknown
			}
			return "ready for two-groups", HookDone
		}
		c := checkpoint.Cutover{CutoverPlan: plan()}
		c.Group = "shop"
		if got := s.driver.WithoutGroups(s.Ctx, c); !slices.Equal(got, HookNames[2:]) {
			t.Errorf("%q of %q", got, HookNames)
		}
		for _, call := range probes {
			if !call.Probe || call.Group != "shop" || !slices.Equal(call.Tables, plan().Tables) || call.Step != "probe" {
				t.Errorf("%+v", call)
			}
		}
		if len(probes) != len(HookNames) {
			t.Errorf("%d probes", len(probes))
		}
	})
}

// The probe of the canaries leaves no item in a source, and fails with it.
func TestTheProbeOfCanariesLeavesNothing(t *testing.T) {
	for _, fails := range []string{"", "Describe", "Put", "Delete"} {
		playScene(t, func(s *scene) {
			v := &drive{Driver: s.driver, settings: s.driver.Settings.orDefault()}
			c := checkpoint.Cutover{CutoverPlan: plan(), Attempt: 1, Step: checkpoint.CutoverChecks}
			s.Must(s.Update(func(now *checkpoint.Cutover) error { *now = c; return nil }))
			before := len(s.Source.Items["Orders"]) + len(s.Source.Items["Parts"])
			called := map[string]int{}
			s.Source.Fail = func(call string) error {
				if called[call]++; call == fails {
					return errAway
				}
				return nil
			}
			err := v.probeCanaries(s.Ctx, c)
			s.Source.Fail = nil
			if after := len(s.Source.Items["Orders"]) + len(s.Source.Items["Parts"]); (err == nil) != (fails == "") || fails == "" && (after != before || called["Put"] != len(c.Tables) || called["Delete"] != len(c.Tables)) {
				t.Errorf("%q fails: %v, %d items after %d, %v", fails, err, after, before, called)
			}
		})
	}
}

// A throttled listing is repeated, because a repeat of the whole look would need more calls. The
// error of a stream that stays throttled is returned.
func TestAThrottledListingIsRepeated(t *testing.T) {
	for refused, listed := range map[int]bool{0: true, listsAgain: true, listsAgain + 1: false} {
		playScene(t, func(s *scene) {
			left := refused
			r := &streamRead{cdc: throttling{s.Source.Open(""), &left}, parents: map[string]string{}}
			ids, err := r.listed(s.Ctx, "parent")
			if listed != (err == nil && len(ids) == 1 && r.parents["child"] == "parent") || !listed && !cdc.Is(err, cdc.Throttled) {
				t.Errorf("throttled %d times: %v, %v", refused, ids, err)
			}
		})
	}
}

// throttling is a stream that refuses its first listings.
type throttling struct {
	cdc.Source
	left *int
}

func (r throttling) ListPage(context.Context, string, string) (cdc.ListingPage, error) {
	if *r.left > 0 {
		*r.left--
		return cdc.ListingPage{}, &cdc.Error{Op: "DescribeStream", Reason: cdc.Throttled, Err: errors.New("rate exceeded")}
	}
	return cdc.ListingPage{Shards: []cdc.Shard{{ID: "child", Parent: "parent"}}}, nil
}
