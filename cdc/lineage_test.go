package cdc

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// lineageOf parses "a/b@7" as the shard a with the parent b and hop 7; "/b" and "@7" may be absent.
func lineageOf(text string) (nodes []Node, shards []Shard) {
	for _, field := range strings.Fields(text) {
		name, hop, _ := strings.Cut(field, "@")
		id, parent, _ := strings.Cut(name, "/")
		n := Node{ID: id, Parent: parent}
		if hop != "" {
			_, _ = fmt.Sscan(hop, &n.Hop)
		}
		nodes, shards = append(nodes, n), append(shards, Shard{ID: id, Parent: parent})
	}
	return nodes, shards
}

func lineageText(nodes []Node) string {
	var fields []string
	for _, n := range nodes {
		fields = append(fields, fmt.Sprintf("%s@%d", n.ID, n.Hop))
	}
	return strings.Join(fields, " ")
}

func orphanText(orphans []Orphan) string {
	var fields []string
	for _, o := range orphans {
		fields = append(fields, fmt.Sprintf("%s: %s", o.ID, o.Reason))
	}
	return strings.Join(fields, ", ")
}

func TestRankShards(t *testing.T) {
	for _, c := range []struct {
		name, known, listed string
		first               bool
		placed, orphans     string
	}{
		{"nothing", "", "", true, "", ""},
		{"roots and descendants", "", "c/b b/a a d e/a", true, "a@500000 b@500001 c@500002 d@500000 e@500001", ""},
		{"known shards are not placed again", "a@500000 b/a@500001", "a b/a c/b", false, "c@500002", ""},
		{"a trimmed parent in the first listing", "", "b/x c/b", true, "b@500000 c@500001", ""},
		{"H14: a trimmed parent later", "a@500000 d/a@500007", "b/x c/b", false, "b@500009 c@500010", "b: its parent was never listed"},
		{"with three generations after it", "a@500000", "b/x c/b d/c e/d", false, "b@500002 c@500003 d@500004 e@500005", "b: its parent was never listed"},
		{"two of them, in the order of their ids", "", "c/y b/x", false, "b@500002 c@500004", "b: its parent was never listed, c: its parent was never listed"},
		{"and not in the order they are come upon", "", "a/z z/y b/x", false, "b@500002 z@500004 a@500005", "b: its parent was never listed, z: its parent was never listed"},
		{"the parent of such a one, after all", "a@500000 b/x@500002", "x/a b/x", false, "x@500001", ""},
		{"a late root", "a@500007", "a b c/b", false, "b@500000 c@500001", ""},
		{"H66: a late parent", "c/b@500000", "b c/b", false, "b@499999", ""},
		{"H66: a late parent, while its child is listed without it", "c/b@500000", "b c", false, "b@499999", ""},
		{"H66: late parent and grandparent", "c/b@500000", "c/b b/a a", false, "a@499998 b@499999", ""},
		{"H66: a late parent whose parent is unknown", "c/b@500000", "b/x", false, "b@499999", ""},
		{"H66: a late parent between", "a@500000 c/b@500002", "b/a", false, "b@500001", ""},
		{"H66: below the lowest of its children", "c/b@500004 d/b@500002", "b", false, "b@500001", ""},
		{"H66: below the lowest, whichever that is", "c/b@500002 d/b@500004", "b", false, "b@500001", ""},
		{"H66: with another new child", "c/b@500000", "b d/b e/d", false, "b@499999 d@500000 e@500001", ""},
		{"H66: no room", "a@500000 c/b@500000", "b/a", false, "b@499999", "b: its place in the lineage is occupied"},
		{"H66: room for one of two", "a@500000 d/c@500002", "c/b b/a", false, "b@500000 c@500001", "b: its place in the lineage is occupied"},
		{"a parent the ledger did not know of", "c@500000", "c/b b", false, "b@499999", ""},
		{"a shard listed twice, once without its parent", "", "b a b/a", true, "a@500000 b@500001", ""},
		{"a circle", "", "a/b b/c c/a d/a e", true, "e@500000", "a: it is its own ancestor, b: it is its own ancestor, c: it is its own ancestor, d: it is its own ancestor"},
		{"a circle through a known shard", "a/b@500000", "b/a c/a", false, "c@500001", "b: it is its own ancestor"},
		{"its own parent", "", "a/a", true, "", "a: it is its own ancestor"},
		{"no hop left above", "a@999999", "b/a c/b", false, "", "b: its hop is out of range, c: its hop is out of range"},
		{"no hop left below", "b/a@1", "a", false, "", "a: its hop is out of range"},
		{"no hop left for a lost one", "a@999998", "b/x c/b", false, "", "b: its hop is out of range, c: its hop is out of range"},
	} {
		t.Run(c.name, func(t *testing.T) {
			known, _ := lineageOf(c.known)
			_, listed := lineageOf(c.listed)
			placed, orphans := RankShards(known, listed, c.first)
			if lineageText(placed) != c.placed || orphanText(orphans) != c.orphans {
				t.Errorf("placed  %s\n    want    %s\n    orphans %s\n    want    %s", lineageText(placed), c.placed, orphanText(orphans), c.orphans)
			}
		})
	}
}

func TestLeaves(t *testing.T) {
	nodes, _ := lineageOf("c/a b/a a d/x")
	if got := fmt.Sprint(Leaves(nodes)); got != "[b c d]" {
		t.Error(got)
	}
}

// outranked returns a known shard whose hop is not above that of one of its known ancestors. Only
// ancestors that are reached through known shards count, because connections through unlisted
// shards are unknown.
func outranked(known []Node) string {
	byID := map[string]Node{}
	for _, n := range known {
		byID[n.ID] = n
	}
	for _, n := range known {
		for above, ok := byID[n.Parent]; ok; above, ok = byID[above.Parent] {
			if above.Hop >= n.Hop {
				return fmt.Sprintf("%s@%d under %s@%d", n.ID, n.Hop, above.ID, above.Hop)
			}
		}
	}
	return ""
}

// H12, H14, H15, H66, H76: partial listings reveal a forest. The placement does not depend on the
// order of a listing, and no shard is left out. As long as no orphan was reported, age and rank
// agree; if ranked again, they always agree.
func TestH66PlacementAgreesWithAge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(1, 12).Draw(t, "shards")
		// The names do not reveal the age, so sorting by name cannot succeed by chance.
		names := rapid.Permutation(strings.Split("a b c d e f g h i j k l", " ")[:count]).Draw(t, "names")
		truth := make([]Shard, count)
		for i := range truth {
			truth[i].ID = names[i]
			if p := rapid.IntRange(-1, i-1).Draw(t, "parent"); p >= 0 {
				truth[i].Parent = names[p]
			}
		}
		var known []Node
		broken := false
		rounds := rapid.IntRange(1, 5).Draw(t, "rounds")
		for round := range rounds {
			listed := rapid.Permutation(truth).Draw(t, "order")
			if round < rounds-1 {
				listed = listed[:rapid.IntRange(0, count).Draw(t, "listed")]
			}
			highest := uint32(RootHop)
			for _, n := range known {
				highest = max(highest, n.Hop)
			}
			placed, orphans := RankShards(known, listed, round == 0)
			reversed := slices.Clone(listed)
			slices.Reverse(reversed)
			again, sameOrphans := RankShards(rapid.Permutation(known).Draw(t, "known"), reversed, round == 0)
			if !slices.Equal(placed, again) || !slices.Equal(orphans, sameOrphans) {
				t.Fatalf("another order places %s, not %s", lineageText(again), lineageText(placed))
			}
			for i, n := range placed {
				if slices.ContainsFunc(placed[i+1:], func(m Node) bool { return m.ID == n.Parent }) {
					t.Fatalf("%s stands before its parent in %s", n.ID, lineageText(placed))
				}
				if slices.ContainsFunc(known, func(k Node) bool { return k.ID == n.ID }) {
					t.Fatalf("%s is placed again", n.ID)
				}
			}
			for _, o := range orphans {
				at := slices.IndexFunc(placed, func(n Node) bool { return n.ID == o.ID })
				if at < 0 || o.Reason == UnknownParent && placed[at].Hop <= highest {
					t.Fatalf("orphan %+v among %s, highest before %d", o, lineageText(placed), highest)
				}
			}
			broken = broken || len(orphans) > 0
			known = append(known, placed...)
			for _, s := range listed {
				if !slices.ContainsFunc(known, func(n Node) bool { return n.ID == s.ID }) {
					t.Fatalf("%s is left out", s.ID)
				}
			}
			if wrong := outranked(known); wrong != "" && !broken {
				t.Fatalf("%s, and no orphan was reported", wrong)
			}
			if more, reported := RankShards(known, listed, false); more != nil || reported != nil {
				t.Fatalf("the same listing again places %s and reports %s", lineageText(more), orphanText(reported))
			}
		}
	})
}

func BenchmarkRankShards(b *testing.B) {
	var listed []Shard
	for i := range 5000 {
		s := Shard{ID: fmt.Sprintf("shardId-%020d-%08x", i, i)}
		if i >= 500 {
			s.Parent = listed[i-500].ID
		}
		listed = append(listed, s)
	}
	known, _ := RankShards(nil, listed[:4500], true)
	b.ReportAllocs()
	for b.Loop() {
		RankShards(known, listed, false)
	}
}

// TestPlaceFirstListingWithAHole: a first listing may lack the middle of a lineage. The younger end
// does not become a root, which would rank it below the older end. Room is left for the middle, in
// case it is listed later.
func TestPlaceFirstListingWithAHole(t *testing.T) {
	hops := map[string]uint32{}
	placed, orphans := RankShards(nil, []Shard{{ID: "s1", Parent: "s0"}, {ID: "s2", Parent: "s1"}, {ID: "s4", Parent: "s3"}}, true)
	for _, n := range placed {
		hops[n.ID] = n.Hop
	}
	if len(orphans) > 0 || len(placed) != 3 || hops["s1"] != RootHop || hops["s4"] <= hops["s2"]+1 {
		t.Fatalf("placed %v, orphans %v", placed, orphans)
	}
	middle, orphans := RankShards(placed, []Shard{{ID: "s3", Parent: "s2"}}, false)
	if len(orphans) > 0 || len(middle) != 1 || middle[0].Hop <= hops["s2"] || middle[0].Hop >= hops["s4"] {
		t.Fatalf("the middle is placed %v, orphans %v", middle, orphans)
	}
}

// TestPlaceFirstListingThatWasInterrupted: a worker recorded some shards of the first listing and
// ended. Hours later the listing starts again and shows others. Its oldest shard may descend from
// the known ones, or be their ancestor.
func TestPlaceFirstListingThatWasInterrupted(t *testing.T) {
	known := []Node{{ID: "s3", Parent: "s2", Hop: RootHop + 4}, {ID: "s4", Parent: "s3", Hop: RootHop + 5}}
	younger, orphans := RankShards(known, []Shard{{ID: "s8", Parent: "s7"}, {ID: "s9", Parent: "s8"}}, true)
	if len(orphans) > 0 || len(younger) != 2 || younger[0].Hop <= RootHop+6 || younger[1].Hop <= younger[0].Hop {
		t.Errorf("younger ones are placed %v, orphans %v", younger, orphans)
	}
	older, orphans := RankShards(known, []Shard{{ID: "s1", Parent: "s0"}, {ID: "s4", Parent: "s3"}}, true)
	if len(orphans) > 0 || len(older) != 1 || older[0].Hop >= RootHop+3 {
		t.Errorf("an older one is placed %v, orphans %v", older, orphans)
	}
	oldest, orphans := RankShards([]Node{{ID: "s3", Parent: "s2", Hop: RootHop}}, []Shard{{ID: "s1", Parent: "s0"}}, true)
	if len(orphans) > 0 || len(oldest) != 1 || oldest[0].Hop >= RootHop-1 {
		t.Errorf("one older than a root is placed %v, orphans %v", oldest, orphans)
	}
}
