package cutover

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/drain"
)

// ends lets a further shard of a table end now. Its children are known after the listing bound.
func (s *scene) ends(source, id string) {
	s.Helper()
	state := s.Table(source)
	sh := checkpoint.Shard{Source: source, StreamARN: state.StreamARN, Label: state.Label, ID: id, State: checkpoint.Done, Hop: 500_000, Generation: state.Generation, DoneAt: s.Now()}
	s.Must(s.Ledger.CreateShard(s.Ctx, sh))
	s.World.After(2*time.Minute, func() {
		shards, err := s.Ledger.Shards(s.Ctx, source)
		s.Must(err)
		for _, sh := range shards {
			if sh.ID == id {
				s.Must(s.Ledger.Completed(s.Ctx, sh))
			}
		}
	})
}

// A shard that ends without a canary shortly before the freeze does not keep writes frozen until its
// children are listed: the attempt waits in its checks for a moment at which the freeze is short. The
// record says until when.
func TestH145_TheFreezeWaitsForItsMoment(t *testing.T) {
	playScene(t, func(s *scene) {
		s.start(brief(1))
		s.drive(func(c checkpoint.Cutover) bool { return c.Step == checkpoint.CutoverChecks })
		s.ends("Parts", "ended")
		ended := s.Now()
		got := s.driveFor(time.Minute)
		next := ended.Add(drain.LongestListing(got.CutoverPlan) + restOf(got, 0) - 8*time.Second)
		if got.Step != checkpoint.CutoverChecks || !strings.HasPrefix(got.Trouble, "shard ended of table Parts has ended, and its children may be listed late: a freeze would last 1m") ||
			!strings.HasSuffix(got.Trouble, fmt.Sprint("the next moment is expected at ", next.Format(time.TimeOnly))) || !got.MomentAt.Equal(next) || !got.WaitsUntil.IsZero() {
			t.Errorf("%s: %s; at %v, want %v", got.Step, got.Trouble, got.MomentAt, next)
		}
		got = s.drive(settled)
		s.expect(got, checkpoint.CutoverWatching, "", FreezeWrites, Switch)
		if frozen := got.FrozenFor(s.Now()); frozen > 20*time.Second || got.FrozenAt.Before(next) || !got.MomentAt.IsZero() {
			t.Errorf("writes were frozen for %s, from %v on, and the moment was expected at %v", frozen, got.FrozenAt, next)
		}
	})
}

// A shard that ends between the checks and the call of the hook stops the call. A call that may have
// been made before is not repeated then: the application is let go.
func TestH145_TheMomentIsLookedForAgainBeforeTheCall(t *testing.T) {
	for _, called := range []bool{false, true} {
		playScene(t, func(s *scene) {
			s.start(brief(1))
			if called {
				s.answers(FreezeWrites, func(Call) (string, Outcome) { s.ends("Parts", "ended"); return "", HookUnknown })
				got := s.drive(settled)
				s.expect(got, checkpoint.CutoverCancelled, "the moment for a short freeze has passed: shard ended of table Parts has ended", FreezeWrites, UnfreezeWrites)
				return
			}
			s.driver.OnStep = func(c checkpoint.Cutover) {
				if c.Step == checkpoint.CutoverFreeze && c.Calls == 0 {
					s.ends("Parts", "ended")
				}
			}
			got := s.drive(settled)
			s.expect(got, checkpoint.CutoverWatching, "", FreezeWrites, Switch)
			if way := steps(got); way != "requested checks freeze checks freeze drain verify fence switching watching" {
				t.Errorf("steps %s", way)
			}
			if frozen := got.FrozenFor(s.Now()); frozen > 20*time.Second {
				t.Errorf("writes were frozen for %s", frozen)
			}
		})
	}
}

// A request that waits for a moment ends after the time that it may wait, and nothing was frozen.
func TestAMomentThatDoesNotCome(t *testing.T) {
	playScene(t, func(s *scene) {
		p := brief(1)
		p.MomentWithin = 30 * time.Second
		s.start(p)
		s.drive(func(c checkpoint.Cutover) bool { return c.Step == checkpoint.CutoverChecks })
		s.ends("Parts", "ended")
		got := s.drive(settled)
		s.expect(got, checkpoint.CutoverCancelled, "nothing was frozen, because there was no suitable moment for a short freeze: shard ended of table Parts has ended")
		if waited := got.EndedAt.Sub(got.WaitsUntil.Add(-p.MomentWithin)); !got.NoMoment || waited < 30*time.Second || waited > 40*time.Second || !got.FreezeBegunAt.IsZero() {
			t.Errorf("it ended after %s: %+v", waited, got)
		}
	})
}
