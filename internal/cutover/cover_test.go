package cutover

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

// An open shard is covered once two canaries are known to reach it. A shard that replaces another
// one alone inherits what reached that one. The children of a split do not, because both canaries
// may go to the same child. A canary of any attempt counts, because items do not move.
func TestWhichShardsAreCovered(t *testing.T) {
	waiting := func(id, parent string) checkpoint.Shard {
		sh := kit.ShardOf(id, parent)
		sh.State, sh.Owner = checkpoint.Waiting, ""
		return sh
	}
	settling := kit.ShardOf("a", "")
	settling.EndedAt = kit.Noon
	for name, c := range map[string]struct {
		shards []checkpoint.Shard
		open   int
		left   int
		proof  string // the canaries that are written after the freeze
	}{
		"no shard":                 {nil, 0, 0, "[0 1]"},
		"no candidate":             {[]checkpoint.Shard{kit.ShardOf("a", "")}, 1, 1, "[0 1]"},
		"one candidate":            {[]checkpoint.Shard{kit.CandidatesIn(kit.ShardOf("a", ""), 3, 7)}, 1, 1, "[7]"},
		"two":                      {[]checkpoint.Shard{kit.CandidatesIn(kit.ShardOf("a", ""), 3, 9, 7, 11)}, 1, 0, "[7 9]"},
		"of two attempts":          {[]checkpoint.Shard{kit.CandidatesIn(kit.CandidatesIn(kit.ShardOf("a", ""), 1, 9), 3, 7)}, 1, 0, "[7 9]"},
		"twice the same":           {[]checkpoint.Shard{kit.CandidatesIn(kit.CandidatesIn(kit.ShardOf("a", ""), 1, 9), 3, 9)}, 1, 1, "[9]"},
		"of a proof":               {[]checkpoint.Shard{kit.SeenIn(kit.SeenIn(kit.ShardOf("a", ""), 2, 5), 2, 6)}, 1, 0, "[5 6]"},
		"two shards":               {[]checkpoint.Shard{kit.CandidatesIn(kit.ShardOf("a", ""), 3, 1, 2), kit.ShardOf("b", "")}, 2, 1, "[1 2]"},
		"another stream":           {[]checkpoint.Shard{kit.CandidatesIn(kit.ShardOf("a", ""), 3, 1, 2), {ID: "b", Label: "former", State: checkpoint.Reading}}, 1, 0, "[1 2]"},
		"it has ended":             {[]checkpoint.Shard{kit.DoneShard("a", "", false)}, 0, 0, "[0 1]"},
		"it settles":               {[]checkpoint.Shard{settling}, 0, 0, "[0 1]"},
		"it is replaced":           {[]checkpoint.Shard{kit.CandidatesIn(kit.DoneShard("a", "", true), 3, 4, 5), waiting("b", "a")}, 1, 0, "[4 5]"},
		"replaced twice":           {[]checkpoint.Shard{kit.CandidatesIn(kit.DoneShard("a", "", true), 2, 4), kit.CandidatesIn(kit.DoneShard("b", "a", true), 3, 6), kit.ShardOf("c", "b")}, 1, 0, "[4 6]"},
		"maybe replaced by two":    {[]checkpoint.Shard{kit.CandidatesIn(kit.DoneShard("a", "", false), 3, 4, 5), kit.ShardOf("b", "a")}, 1, 1, "[0 1]"},
		"split":                    {[]checkpoint.Shard{kit.CandidatesIn(kit.DoneShard("a", "", true), 3, 4, 5), kit.ShardOf("b", "a"), kit.CandidatesIn(kit.ShardOf("c", "a"), 3, 8, 9)}, 2, 1, "[8 9]"},
		"the parent's row is gone": {[]checkpoint.Shard{kit.ShardOf("b", "a")}, 1, 1, "[0 1]"},
	} {
		f := ready()
		f.Shards = c.shards
		got := coverOf(checkpoint.Cutover{Attempt: 3}, "Orders", f)
		if proof := fmt.Sprint(forProof(f)); got.open != c.open || got.uncovered != c.left || proof != c.proof {
			t.Errorf("%s: %+v and %s, want %d of %d and %s", name, got, proof, c.left, c.open, c.proof)
		}
	}
}

// Batches of candidates grow until all shards are covered, or the table has its maximum. A thousand
// shards take a few dozen batches; a shard whose range no canary reaches uses up the maximum.
func TestCandidatesAreFoundInBatches(t *testing.T) {
	for name, c := range map[string]struct {
		shards  int
		hot     bool // the last shard's range has no canary
		most    int
		batches int // at most
		written int // at most
	}{
		"no shard": {0, false, canary.Most, 0, 0}, "one": {1, false, canary.Most, 1, 4}, "four": {4, false, canary.Most, 4, 64},
		"seventy": {70, false, canary.Most, 8, 2000}, "a thousand": {1000, false, canary.Most, 8, canary.Most}, "a hot item": {3, true, canary.Most, 90, canary.Most}, "few allowed": {3, true, 100, 10, 100},
	} {
		rng := rand.New(rand.NewPCG(1, 2))
		f := ready()
		f.Shards = nil
		for i := range c.shards {
			f.Shards = append(f.Shards, kit.ShardOf(fmt.Sprint("shard", i), ""))
		}
		k, batches := checkpoint.Cutover{Attempt: 3}, 0
		for {
			found := coverOf(k, "Orders", f)
			n := found.nextBatch(c.most)
			if n == 0 {
				if want := map[bool]int{true: 1}[c.hot]; found.uncovered != want {
					t.Errorf("%s: %d shards are uncovered after %d candidates", name, found.uncovered, found.written)
				}
				break
			}
			ranges := c.shards
			if c.hot {
				ranges--
			}
			for i := range n {
				f.Shards[rng.IntN(ranges)].Sighted.See(5, found.written+i)
			}
			k.HoldCanaries(map[string]int{"Orders": found.written + n})
			if batches++; coverOf(k, "Orders", f).read != found.written+n {
				t.Errorf("%s: %+v after %d candidates", name, found, found.written+n)
			}
		}
		if written := k.Candidates["Orders"]; batches > c.batches || written > c.written {
			t.Errorf("%s: %d candidates in %d batches, want %d in %d", name, written, batches, c.written, c.batches)
		}
		for _, sh := range f.Shards {
			if len(sh.Sighted.ReachedBy()) > checkpoint.CanariesPerShard {
				t.Errorf("%s: a row lists %s", name, sh.Sighted.Reached)
			}
		}
		if most := max(2, checkpoint.CanariesPerShard*c.shards); len(forProof(f)) > most {
			t.Errorf("%s: %d canaries are written after the freeze, want at most %d", name, len(forProof(f)), most)
		}
	}
}

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
