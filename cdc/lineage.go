package cdc

import (
	"cmp"
	"math"
	"slices"
)

// RootHop is the hop of a shard without a parent. Hops below RootHop leave room for ancestors that
// are listed late. Hops above RootHop leave room for more descendants than a stream gets in a
// century, at one split every four hours.
const RootHop = 500_000

// MaxHop is the largest hop, because hops are written with six digits. Zero is never the hop of a
// shard; loads use it.
const MaxHop = 999_999

// Node is a shard as the ledger knows it.
type Node struct {
	ID     string
	Parent string // "" if it has none
	// Hop ranks the shard within its lineage. A change in this shard is newer than every change of
	// the same item in a shard of the lineage with a lower hop.
	Hop uint32
}

// OrphanReason explains why a shard does not fit into its lineage.
type OrphanReason uint8

// The reasons.
const (
	// UnknownParent means that the parent was never listed. The changes of that parent were never
	// read. Such a shard gets a hop above all others.
	UnknownParent OrphanReason = iota + 1
	// NoRoom means that the shard was listed too late: its ancestors and descendants were already
	// ranked, with no free hop between them. Such a shard gets a hop below its descendants. Its
	// known ancestors may outrank it, so it must not be read.
	NoRoom
	// Cyclic means that the shard is its own ancestor, or descends from a shard that is. Such a
	// shard gets no hop.
	Cyclic
	// OutOfRange means that the shard's hop would not be from 1 to MaxHop. Such a shard gets no
	// hop.
	OutOfRange
)

// String returns the reason in words.
func (r OrphanReason) String() string {
	return [...]string{"", "its parent was never listed", "its place in the lineage is occupied", "it is its own ancestor", "its hop is out of range"}[r]
}

// Orphan is a listed shard that does not fit into the lineage. Continuity is broken, so a gap must
// be declared.
type Orphan struct {
	ID, Parent string
	Reason     OrphanReason
}

// RankShards ranks the listed shards that are not known yet. Known shards keep their hops. The
// result does not depend on the order of its arguments, and it lists parents before their children.
// The argument `first` must be true for the first complete listing of a generation. Only in that
// listing is a shard whose parent is not listed a root, because the load covers changes that were
// trimmed before replication began. In later listings, a parent that is not listed held changes
// that were never read.
//
// While no orphan was reported, every known shard has a higher hop than its known ancestors. An
// orphan that can be read is in both results, placed and orphans. As a placed shard, it is read in
// the raised generation. The next listing does not report it again.
func RankShards(known []Node, listed []Shard, first bool) (placed []Node, orphans []Orphan) {
	f := newForest(known, listed, first)
	for _, id := range f.fresh {
		f.place(id)
	}
	slices.Sort(f.lost)
	for _, id := range f.lost {
		// The shard goes above everything. One hop stays free for its parent, in case the parent is
		// listed later. A root's hop would be wrong. An older, unfinished shard of the same lineage
		// may have any hop. It could outrank this shard in the raised generation.
		f.settle(id, f.highest+2)
		if !f.first { // in a first listing, the load covers the parent's changes
			f.report(id, UnknownParent)
		}
		f.placeBelow(id)
	}
	return f.placed, f.orphans
}

// Leaves returns the known shards without a known child, sorted.
func Leaves(known []Node) []string {
	parents := map[string]bool{}
	for _, n := range known {
		parents[n.Parent] = true
	}
	var leaves []string
	for _, n := range known {
		if !parents[n.ID] {
			leaves = append(leaves, n.ID)
		}
	}
	slices.Sort(leaves)
	return leaves
}

// forest is the state of one ranking.
type forest struct {
	first    bool
	parent   map[string]string   // for every known or listed shard
	children map[string][]string // for every shard, sorted
	hop      map[string]int      // for every known or placed shard
	fresh    []string            // listed but not known, sorted
	isFresh  map[string]bool     // the shards of fresh
	seen     map[string]bool     // fresh shards that were handled
	ceilings map[string]int      // see ceiling
	lost     []string            // fresh shards whose parents are unknown
	highest  int                 // the highest hop of all
	lowest   int                 // the lowest hop of the known shards
	eldest   string              // the lowest id of the known shards; "" if there are none

	placed  []Node
	orphans []Orphan
}

func newForest(known []Node, listed []Shard, first bool) *forest {
	f := &forest{
		first: first, parent: map[string]string{}, children: map[string][]string{}, hop: map[string]int{}, isFresh: map[string]bool{},
		seen: map[string]bool{}, ceilings: map[string]int{}, highest: RootHop, lowest: math.MaxInt,
	}
	for _, n := range known {
		f.parent[n.ID] = n.Parent
		f.hop[n.ID] = int(n.Hop)
		f.highest, f.lowest = max(f.highest, int(n.Hop)), min(f.lowest, int(n.Hop))
		if f.eldest == "" || n.ID < f.eldest {
			f.eldest = n.ID
		}
	}
	listed = slices.SortedFunc(slices.Values(listed), func(a, b Shard) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Parent, b.Parent))
	})
	for _, s := range listed {
		if _, ok := f.hop[s.ID]; !ok && !f.isFresh[s.ID] {
			f.isFresh[s.ID] = true
			f.fresh = append(f.fresh, s.ID)
		}
		// A listing may omit a parent that a later listing names.
		if f.parent[s.ID] == "" {
			f.parent[s.ID] = s.Parent
		}
	}
	for id, parent := range f.parent {
		f.children[parent] = append(f.children[parent], id)
	}
	for _, ids := range f.children {
		slices.Sort(ids)
	}
	return f
}

// place settles a fresh shard after its fresh ancestors. It does not settle the shard if the parent
// of one of these ancestors is unknown.
func (f *forest) place(id string) {
	if f.seen[id] {
		return
	}
	f.seen[id] = true
	if f.cyclic(id) {
		f.report(id, Cyclic)
		return
	}
	parent := f.parent[id]
	if f.isFresh[parent] {
		f.place(parent)
	}
	above, isPlaced := f.hop[parent]
	ceiling := f.ceiling(id)
	switch {
	case ceiling < math.MaxInt:
		// The shard is a late ancestor. It goes just below its lowest descendant. This leaves as
		// much room as possible for ancestors that are listed even later. The shard may have no
		// known ancestor. Then its descendants were ranked as if they descended from a root.
		if isPlaced && above >= ceiling {
			f.report(id, NoRoom)
		}
		f.settle(id, ceiling)
	case isPlaced:
		f.settle(id, above+1)
	case f.isFresh[parent]:
		f.inherit(id, parent)
	case parent == "":
		// A shard without a parent has no ancestors that could outrank it, and its descendants rank
		// above it. So a root's hop is also right for a late shard.
		f.settle(id, RootHop)
	case f.first && f.oldest(id):
		f.settle(id, f.below())
	default:
		f.lost = append(f.lost, id)
	}
}

// oldest reports whether the given shard, whose parent is not listed, is older than every other
// shard. It compares ids, which begin with the time of creation. A listing may lack the middle of a
// lineage. If the younger end then got a root's hop, it would rank below the older end. Shards may
// be known before the first listing is complete. Another worker may have recorded some shards
// without finishing.
func (f *forest) oldest(id string) bool {
	return f.fresh[0] == id && (f.eldest == "" || id < f.eldest)
}

// below returns the hop for the oldest shard. It is a root's hop or, if shards are known, a hop
// below theirs that leaves room for one shard in between.
func (f *forest) below() int {
	if f.eldest == "" {
		return RootHop
	}
	return f.lowest - 2
}

// inherit handles a fresh shard whose fresh parent was not placed. The shard waits if its parent is
// lost, and is an orphan if its parent cannot be placed.
func (f *forest) inherit(id, parent string) {
	i := slices.IndexFunc(f.orphans, func(o Orphan) bool { return o.ID == parent })
	if i >= 0 {
		f.report(id, f.orphans[i].Reason)
		return
	}
	delete(f.seen, id) // placeBelow handles it later
}

// placeBelow settles the fresh descendants of a shard that was settled late.
func (f *forest) placeBelow(id string) {
	for _, child := range f.children[id] {
		if f.isFresh[child] {
			f.place(child)
			f.placeBelow(child)
		}
	}
}

func (f *forest) settle(id string, hop int) {
	if hop < 1 || hop > MaxHop {
		f.report(id, OutOfRange)
		return
	}
	f.hop[id] = hop
	f.highest = max(f.highest, hop)
	f.placed = append(f.placed, Node{ID: id, Parent: f.parent[id], Hop: uint32(hop)})
}

func (f *forest) report(id string, reason OrphanReason) {
	if !slices.ContainsFunc(f.orphans, func(o Orphan) bool { return o.ID == id }) {
		f.orphans = append(f.orphans, Orphan{ID: id, Parent: f.parent[id], Reason: reason})
	}
}

// cyclic reports whether a shard is its own ancestor.
func (f *forest) cyclic(id string) bool {
	passed := map[string]bool{}
	for at := f.parent[id]; at != "" && !passed[at]; at = f.parent[at] {
		if at == id {
			return true
		}
		passed[at] = true
	}
	return false
}

// ceiling returns the highest hop that a fresh shard may have below the known shards that descend
// from it. They may descend through fresh shards. If there are no such shards, it returns
// math.MaxInt. The shard is not on a cycle, so the recursion ends.
func (f *forest) ceiling(id string) int {
	if c, ok := f.ceilings[id]; ok {
		return c
	}
	ceiling := math.MaxInt
	for _, child := range f.children[id] {
		below := math.MaxInt
		if f.isFresh[child] {
			below = f.ceiling(child)
		} else {
			below = f.hop[child]
		}
		if below < math.MaxInt {
			ceiling = min(ceiling, below-1)
		}
	}
	f.ceilings[id] = ceiling
	return ceiling
}
