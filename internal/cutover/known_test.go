package cutover_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
)

// A final verify that finds differences cancels, whatever was overridden before the freeze for its
// age.
func TestAnOverrideOfTheVerifyPassesNoDifferences(t *testing.T) {
	stage(t, 1, 1, func(s *scene) {
		s.since, s.found = begin, checkpoint.VerifyCounts{Missing: 3, Different: 4}
		p := s.plan()
		p.Overrides = []checkpoint.CutoverOverride{{Gate: readiness.GateVerify, Reason: "the last verify is two hours old"}}
		c := s.cut(p)
		kept := c.Verified[s.tables[0]]
		if c.Step != checkpoint.CutoverCancelled {
			t.Errorf("step %s; the evidence says %s, the final verify found %d missing and %d different rows", c.Step, map[bool]string{true: "clean", false: "not clean"}[kept.Clean()], s.found.Missing, s.found.Different)
		}
	})
}

// What is overridden before the freeze is overridden after it: otherwise the attempt ends before
// it.
func TestAnOverrideOfTheFullVerifyHoldsAfterTheFreeze(t *testing.T) {
	stage(t, 1, 1, func(s *scene) {
		s.update(s.tables[0], func(st *checkpoint.TableState) { st.Verify.Full.EndedAt = begin.Add(-25 * time.Hour) })
		s.since = begin // the final verify of a large table reads what was changed since
		p := s.plan()
		p.Overrides = []checkpoint.CutoverOverride{{Gate: readiness.GateFull, Reason: "a full one takes two days"}}
		c := s.cut(p)
		if !c.Step.Switched() && s.frozen(c) > 0 {
			t.Errorf("step %s, frozen for %s", c.Step, s.frozen(c))
		}
	})
}

// Where canaries cannot be written the application is not frozen until the drain's deadline.
func TestDeniedCanariesEndTheFreezeAtOnce(t *testing.T) {
	stage(t, 1, 1, func(s *scene) {
		s.denied = errors.New("AccessDeniedException")
		c := s.cut(s.plan())
		if !(c.Step == checkpoint.CutoverCancelled && s.frozen(c) < time.Minute) {
			t.Errorf("step %s, frozen for %s", c.Step, s.frozen(c))
		}
	})
}

// A switch that takes 40 s is waited for, or an operator is asked: it is not killed and called again and
// again.
func TestASlowSwitchIsNotCalledAgainAndAgain(t *testing.T) {
	stage(t, 1, 1, func(s *scene) {
		calls := 0
		s.hook = func(call cutover.Call) (string, cutover.Outcome) {
			if call.Hook == cutover.Switch {
				calls++
			}
			return "", cutover.HookDone
		}
		s.slow = 40 * time.Second
		_, err := s.ledger.UpdateCutover(s.ctx, "", func(c *checkpoint.Cutover) error { return c.Start(s.plan(), s.world.Now()) })
		s.must(err)
		until := s.world.Now().Add(13 * time.Minute)
		c := s.drive(func(c checkpoint.Cutover) bool { return c.Step.Switched() || s.world.Now().After(until) })
		if !c.Step.Switched() && calls > 2 {
			t.Errorf("step %s ten minutes later, the switch was called %d times", c.Step, calls)
		}
	})
}

// What a hook prints may hold credentials: they are in no record, which the status and the page
// show.
func TestTheRecordHoldsNoCredentialsOfHooks(t *testing.T) {
	stage(t, 1, 1, func(s *scene) {
		s.hook = func(call cutover.Call) (string, cutover.Outcome) {
			if call.Hook != cutover.Switch {
				return "", cutover.HookDone
			}
			return "+ curl -H 'Authorization: Bearer SECRET-4711' https://flags.example/switch", cutover.HookUnknown
		}
		_, err := s.ledger.UpdateCutover(s.ctx, "", func(c *checkpoint.Cutover) error { return c.Start(s.plan(), s.world.Now()) })
		s.must(err)
		c := s.drive(func(c checkpoint.Cutover) bool { return c.Step == checkpoint.CutoverSwitching && c.Trouble != "" })
		if strings.Contains(fmt.Sprintf("%+v", c), "SECRET-4711") {
			t.Errorf("the record has the token that the switch printed")
		}
	})
}

// Once an operator's answer is recorded that nothing was switched, no driver calls the switch.
func TestTheSwitchIsNotCalledAfterTheAnswerNo(t *testing.T) {
	for _, counted := range []bool{false, true} { // the answer comes after the call was counted: the driver was suspended
		t.Run(fmt.Sprintf("counted %t", counted), func(t *testing.T) { answersBeforeACall(t, counted) })
	}
}

// answersBeforeACall answers just before the driver counts a call of the switch, or just after.
func answersBeforeACall(t *testing.T, counted bool) {
	stage(t, 1, 1, func(s *scene) {
		operator := s.open("operator")
		answered, after := false, 0
		s.hook = func(call cutover.Call) (string, cutover.Outcome) {
			if call.Hook != cutover.Switch {
				return "", cutover.HookDone
			}
			if answered {
				after++
			}
			return "timeout", cutover.HookUnknown
		}
		s.store.OnSwap = func(ctx context.Context, key string, execute func() bool) (bool, error) {
			if key != "p/cutover" || answered {
				return execute(), nil
			}
			before, err := operator.Cutover(ctx, "")
			s.must(err)
			n := len(before.Hooks)
			repeats := before.Step == checkpoint.CutoverSwitching && n > 0 && before.Hooks[n-1].Token == before.Token() && before.Trouble != ""
			done := counted && execute()
			c, err := operator.Cutover(ctx, "")
			s.must(err)
			if repeats && (!counted || c.Calls > before.Calls) {
				answered = true
				_, err := operator.UpdateCutover(ctx, "", func(c *checkpoint.Cutover) error { return c.Resolve(false, s.world.Now()) })
				s.must(err)
			}
			if !counted {
				done = execute()
			}
			return done, nil
		}
		c := s.cut(s.plan())
		if !(answered && c.Step == checkpoint.CutoverCancelled && after == 0) {
			t.Errorf("step %s; the switch was called %d times after the answer", c.Step, after)
		}
	})
}

// A rehearsal removes its canaries, whatever its end.
func TestARehearsalThatIsCancelledRemovesItsCanaries(t *testing.T) {
	stage(t, 1, 1, func(s *scene) {
		s.blind = true
		p := s.plan()
		p.Rehearse = true
		c := s.cut(p)
		until := s.world.Now().Add(10 * time.Minute)
		s.drive(func(checkpoint.Cutover) bool { return s.world.Now().After(until) })
		if len(s.canaries) > 0 {
			t.Errorf("step %s; %d canaries are left in the source", c.Step, len(s.canaries))
		}
	})
}

// trimmed is a stream whose records after every former position are trimmed.
type trimmed struct{ stream }

func (r trimmed) Seek(_ context.Context, _ string, from cdc.Position) (cdc.Iterator, error) {
	if !from.AtHorizon() {
		return "", &cdc.Error{Op: "GetShardIterator", Reason: cdc.Trimmed, Err: errors.New("trimmed")}
	}
	return "i", nil
}

// A watch that cannot read part of a stream says so: a late write may be among what was trimmed.
func TestTheWatchSaysWhatItCouldNotRead(t *testing.T) {
	stage(t, 1, 1, func(s *scene) {
		s.cut(s.plan())
		s.pass(30 * time.Hour) // no process runs
		s.stream, s.ledger = trimmed{stream{s}}, s.open("another driver")
		c := s.drive(func(c checkpoint.Cutover) bool { return c.Step == checkpoint.CutoverDone })
		said := slices.ContainsFunc(c.Timeline, func(e checkpoint.CutoverEvent) bool {
			return e.Step == string(checkpoint.CutoverWatching) && e.At.After(begin.Add(time.Hour))
		})
		if !said && c.Strays == 0 && c.Step == checkpoint.CutoverDone {
			t.Errorf("step %s, %d stragglers, and no word about what was trimmed", c.Step, c.Strays)
		}
	})
}

// The watch needs no hooks: it ends in time although they were removed and another worker drives.
func TestTheWatchNeedsNoHooks(t *testing.T) {
	stage(t, 1, 1, func(s *scene) {
		s.cut(s.plan())
		s.gone, s.settings.Pass, s.lists = true, time.Minute, 0
		s.ledger = s.open("another driver")
		c := s.drive(func(c checkpoint.Cutover) bool { return c.Step == checkpoint.CutoverDone })
		if c.Step != checkpoint.CutoverDone {
			t.Errorf("step %s 30 hours after the switch, the stream was listed %d times", c.Step, s.lists)
		}
	})
}

// The watch lists a stream at most six times a minute: DescribeStream is limited per account.
func TestTheWatchListsNowAndThen(t *testing.T) {
	stage(t, 1, 1, func(s *scene) {
		s.cut(s.plan())
		s.lists = 0
		until := s.world.Now().Add(10 * time.Minute)
		s.drive(func(checkpoint.Cutover) bool { return s.world.Now().After(until) })
		if s.lists == 0 || s.lists > 61 {
			t.Errorf("%d listings in ten minutes", s.lists)
		}
	})
}

// Items that are parked after the checks keep the application from being switched.
func TestAnItemThatIsParkedAfterTheFreezeCancels(t *testing.T) {
	stage(t, 1, 1, func(s *scene) {
		s.parked = func() int {
			if len(s.calls) > 0 {
				return 17
			}
			return 0
		}
		c := s.cut(s.plan())
		if c.Step.Switched() {
			t.Errorf("step %s with %d parked items", c.Step, s.parked())
		}
	})
}

// A request with --when-ready waits on for its whole time when a gate closes again.
func TestWhenReadyWaitsOn(t *testing.T) {
	stage(t, 1, 1, func(s *scene) {
		asked := 0
		s.parked = func() int { // an item is parked, it is resolved for a second, and another one is parked
			if asked++; asked == 61 {
				return 0
			}
			return 1
		}
		p := s.plan()
		p.WhenReady, p.Expires = true, begin.Add(2*time.Hour)
		c := s.cut(p)
		if s.world.Now().Before(p.Expires) {
			t.Errorf("step %s %s after the request, which expires after %s", c.Step, s.world.Now().Sub(c.BegunAt).Round(time.Second), p.Expires.Sub(begin))
		}
	})
}

// tablesCompared is how many tables are compared at the same time, in a second each.
const tablesCompared = 16

// Tables drain side by side: forty take as long as one, but for their comparison.
func TestTablesDrainSideBySide(t *testing.T) {
	frozen := map[int]time.Duration{}
	for _, tables := range []int{1, 4, 10, 40} {
		stage(t, tables, 1, func(s *scene) {
			c := s.cut(s.plan())
			if frozen[tables] = s.frozen(c); !c.Step.Switched() || frozen[tables] > frozen[1]+time.Duration(1+tables/tablesCompared)*time.Second {
				t.Errorf("%d tables: step %s, frozen for %s, and %s with one", tables, c.Step, frozen[tables], frozen[1])
			}
		})
	}
}

// The fence of all target tables rises within its deadline, or the attempt is cancelled at it.
func TestFencesRiseSideBySide(t *testing.T) {
	for _, targets := range []int{12, 40} {
		stage(t, 1, targets, func(s *scene) {
			p := s.plan()
			p.FenceFirst = true
			c := s.cut(p)
			var from, to time.Time
			for _, e := range c.Timeline {
				switch e.Step {
				case string(checkpoint.CutoverFence):
					from = e.At
				case string(checkpoint.CutoverSwitching):
					to = e.At
				}
			}
			if took := to.Sub(from); c.Step != checkpoint.CutoverWatching || took > time.Minute {
				t.Errorf("%d targets: step %s, the fence took %s", targets, c.Step, took)
			}
		})
	}
}

// ageing is a stream from which an old shard is trimmed every minute, as from one of a hundred
// shards.
type ageing struct{ stream }

func (r ageing) ListPage(ctx context.Context, arn, after string) (cdc.ListingPage, error) {
	page, err := r.stream.ListPage(ctx, arn, after)
	for i := range 20 {
		if r.s.world.Now().Before(begin.Add(time.Duration(i) * time.Minute)) {
			page.Shards = append(page.Shards, cdc.Shard{ID: old(i)})
		}
	}
	page.Shards = append(page.Shards, cdc.Shard{ID: "child", Parent: old(19)})
	return page, err
}

func old(i int) string { return fmt.Sprintf("old%02d", i) }

// A stream that is never listed twice alike, because old shards are trimmed, drains all the same.
func TestAStreamWhoseOldShardsAreTrimmedDrains(t *testing.T) {
	stage(t, 1, 1, func(s *scene) {
		source, parent := s.tables[0], ""
		for i := range 20 {
			s.shard(checkpoint.Shard{Source: source, ID: old(i), Parent: parent, State: checkpoint.Done, Complete: true, Generation: 5, DoneAt: begin.Add(-20 * time.Hour)})
			parent = old(i)
		}
		s.shard(checkpoint.Shard{Source: source, ID: "child", Parent: parent, State: checkpoint.Waiting, Generation: 5})
		s.follow(source, "child")
		s.stream = ageing{stream{s}}
		c := s.cut(s.plan())
		if !c.Step.Switched() || s.frozen(c) > time.Minute {
			t.Errorf("step %s, frozen for %s", c.Step, s.frozen(c))
		}
	})
}

// A shard that was a gap before the last load does not keep the drain, or a gate says so before.
func TestAFormerGapDrains(t *testing.T) {
	stage(t, 1, 1, func(s *scene) {
		s.shard(checkpoint.Shard{Source: s.tables[0], ID: "lost", State: checkpoint.Gap, Loss: checkpoint.NotFound, Reason: "not found", Generation: 4,
			DoneAt: begin.Add(-5 * time.Hour)})
		c := s.cut(s.plan())
		if !c.Step.Switched() {
			t.Errorf("step %s, frozen for %s", c.Step, s.frozen(c))
		}
	})
}
