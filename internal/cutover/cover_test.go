package cutover

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

// hot lets a table have another shard, whose range no canary reaches. A worker reads it.
func (s *scene) hot(source string) {
	s.Helper()
	state, ledger := s.Table(source), s.Open("other worker")
	sh := checkpoint.Shard{Source: source, StreamARN: state.StreamARN, Label: state.Label, ID: "z", State: checkpoint.Waiting, Hop: 500_000, Generation: state.Generation}
	s.Must(s.Ledger.CreateShard(s.Ctx, sh))
	s.World.Go("follow z", func(ctx context.Context) {
		for ; ctx.Err() == nil; _ = task.Sleep(ctx, time.Second) {
			shards, err := ledger.Shards(ctx, source)
			s.Must(err)
			lease, err := ledger.Take(ctx, shards[1], nil)
			if err != nil {
				continue // halted
			}
			for ; lease.Context().Err() == nil; _ = task.Sleep(ctx, time.Second) {
				state := s.Table(source)
				at := checkpoint.Progress{FirstRead: kit.Begin, AppliedTo: s.Now(), ReadAt: s.Now(), CaughtUp: true}
				at.Rechecked = checkpoint.Rechecked{Verify: state.Recheck.Number(s.Now()), Since: kit.Begin}
				if state.Halted() {
					_ = lease.Release(ctx)
					break
				}
				if lease.Commit(ctx, at) != nil {
					break
				}
			}
		}
	})
}

// The application is not frozen before two canaries are known to reach each open shard. A shard that
// none of the maximum reaches is proved by empty pages: the try may then last 25 s longer.
func TestH145_CanariesAreKnownBeforeTheFreeze(t *testing.T) {
	playScene(t, func(s *scene) {
		s.driver.Settings.Candidates = 300
		s.hot("Parts")
		s.Sleep(time.Minute)
		s.start(brief(1))
		waits, held := "", map[string]int{}
		got := s.drive(func(c checkpoint.Cutover) bool {
			if c.Step == checkpoint.CutoverChecks && c.Trouble != "" {
				waits = c.Trouble
			}
			if c.Step == checkpoint.CutoverDrain {
				held = c.Candidates
			}
			return settled(c)
		})
		s.expect(got, checkpoint.CutoverWatching, "", FreezeWrites, Switch)
		if !strings.HasPrefix(waits, "table Parts: searching for canaries that reach 1 of 2 open shards; candidates so far: ") {
			t.Errorf("it waited for %q", waits)
		}
		if frozen := got.FrozenFor(s.Now()); !got.Uncovered || got.Limit() != 33*time.Second || frozen < 20*time.Second || frozen > 40*time.Second {
			t.Errorf("uncovered %t, limit %s, frozen for %s", got.Uncovered, got.Limit(), frozen)
		}
		if held["Parts"] != 300 || held["Orders"] != 4 {
			t.Errorf("candidates: %v", held)
		}
		if i := slices.IndexFunc(got.Proofs, func(p checkpoint.CutoverProof) bool { return p.Shard == "z" }); i < 0 || got.Proofs[i].How == "a canary" {
			t.Errorf("proofs %+v", got.Proofs)
		}
		s.driveFor(time.Minute)
		if left := len(s.Source.Items["Orders"]) + len(s.Source.Items["Parts"]); left > 0 || s.Cutover().Candidates != nil {
			t.Errorf("%d canaries are left, %v", left, s.Cutover().Candidates)
		}
	})
}

// A driver that takes over in the checks goes on with further candidates, and does not begin again.
func TestCandidatesOfAnotherDriver(t *testing.T) {
	playScene(t, func(s *scene) {
		s.driver.Settings.Candidates = 100
		s.hot("Parts")
		s.start(brief(1))
		s.drive(func(c checkpoint.Cutover) bool { return c.Candidates["Parts"] > 20 })
		before := s.Cutover().Candidates["Parts"]
		s.driver.Ledger = s.Open("next")
		s.drive(settled)
		rounds := map[uint32]map[int]int{1: {}, 2: {}}
		for _, c := range s.Source.Changes["Parts"] {
			if round, i := canary.Which(c); round > 0 {
				rounds[round][i]++
			}
		}
		if len(rounds[1]) != 100 || before >= 100 {
			t.Errorf("%d of %d candidates are written, %d of them by the first driver", len(rounds[1]), 100, before)
		}
		for i, n := range rounds[1] {
			if n > 1 {
				t.Errorf("candidate %d is written %d times", i, n)
			}
		}
	})
}
