package drain

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
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
		got := CoverOf(checkpoint.Cutover{Attempt: 3}, "Orders", f)
		if proof := fmt.Sprint(Canaries(f)); got.Open != c.open || got.Uncovered != c.left || proof != c.proof {
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
			found := CoverOf(k, "Orders", f)
			n := found.NextBatch(c.most)
			if n == 0 {
				if want := map[bool]int{true: 1}[c.hot]; found.Uncovered != want {
					t.Errorf("%s: %d shards are uncovered after %d candidates", name, found.Uncovered, found.Written)
				}
				break
			}
			ranges := c.shards
			if c.hot {
				ranges--
			}
			for i := range n {
				f.Shards[rng.IntN(ranges)].Sighted.See(5, found.Written+i)
			}
			k.HoldCanaries(map[string]int{"Orders": found.Written + n})
			if batches++; CoverOf(k, "Orders", f).Read != found.Written+n {
				t.Errorf("%s: %+v after %d candidates", name, found, found.Written+n)
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
		if most := max(2, checkpoint.CanariesPerShard*c.shards); len(Canaries(f)) > most {
			t.Errorf("%s: %d canaries are written after the freeze, want at most %d", name, len(Canaries(f)), most)
		}
	}
}

// A gap counts for the drain unless the last load is later than it. Shards of another stream never
// do.
func TestWhichShardsADrainMustProve(t *testing.T) {
	of := func(id, parent, label string, state checkpoint.State, generation uint32) checkpoint.Shard {
		return checkpoint.Shard{ID: id, Parent: parent, Label: label, State: state, Generation: generation}
	}
	l := LineageOf(readiness.Figures{State: checkpoint.TableState{Label: "l", Generation: 9, Base: 5}, Shards: []checkpoint.Shard{
		of("filled", "", "l", checkpoint.Gap, 4), of("gap", "", "l", checkpoint.Gap, 5), of("child", "filled", "l", checkpoint.Reading, 5), of("done", "gap", "l", checkpoint.Done, 1), of("other", "", "former", checkpoint.Reading, 5), of("grand", "done", "l", checkpoint.Waiting, 5), of("late", "done", "l", checkpoint.Waiting, 5),
	}})
	var roots []string
	for _, sh := range l.roots {
		roots = append(roots, sh.ID)
	}
	if ids := slices.Sorted(maps.Keys(l.rows)); !slices.Equal(ids, []string{"child", "done", "gap", "grand", "late"}) || !slices.Equal(roots, []string{"gap", "child"}) || len(l.children["done"]) != 2 || len(l.children["gap"]) != 1 || len(l.children) != 2 {
		t.Errorf("rows %v, roots %v, children %v", ids, roots, l.children)
	}
}

// A batch grows with the shards that are not reached, and with what was written. It has its limits.
func TestTheSizeOfABatch(t *testing.T) {
	for i, c := range []struct {
		of         Cover
		most, want int
	}{
		{Cover{Open: 3, Uncovered: 0, Written: 50}, 1000, 0}, {Cover{Open: 3, Uncovered: 2}, 1000, 8}, {Cover{Open: 3, Uncovered: 1, Written: 50, Read: 7}, 1000, 50}, {Cover{Open: 3, Uncovered: 1, Written: 300, Read: 300}, 1000, 256},
		{Cover{Open: 100, Uncovered: 1, Written: 500, Read: 500}, 10_000, 400}, {Cover{Open: 100, Uncovered: 90}, 10_000, 360}, {Cover{Open: 3, Uncovered: 1, Written: 95}, 100, 5}, {Cover{Open: 3, Uncovered: 1, Written: 100}, 100, 0}, {Cover{Open: 3, Uncovered: 1, Written: 200}, 100, 0},
	} {
		if got := c.of.NextBatch(c.most); got != c.want {
			t.Errorf("%d: %d, want %d", i, got, c.want)
		}
	}
}
