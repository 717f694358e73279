package cdc

import (
	"cmp"
	"math"
	"slices"
)

// RootHop is the hop of a shard without a parent. There is room below it for ancestors that are listed late, and above it
// for more descendants than a stream has in a century at one generation every four hours.
const RootHop = 500_000

// MaxHop is the largest hop: hops are written with six digits. Zero is not a shard's; loads have it.
const MaxHop = 999_999

// Node is a shard as the ledger knows it.
type Node struct {
	ID     string
	Parent string // "" if it has none
	// Hop ranks the shard within its lineage: every change in it is newer, for the same item, than every change in a shard
	// of the same lineage with a lower hop.
	Hop uint32
}

// OrphanReason says why a shard does not fit into its lineage.
type OrphanReason uint8

// The reasons.
const (
	// UnknownParent: the parent was never listed, so what it held was never read. Placed above everything.
	UnknownParent OrphanReason = iota + 1
	// NoRoom: listed only after its ancestors and descendants were ranked without a hop between them. Placed below its
	// descendants; its known ancestors may outrank it, so that it must not be read.
	NoRoom
	// Cyclic: the shard is its own ancestor, or hangs on one that is. Not placed.
	Cyclic
	// OutOfRange: its hop would not be within 1 and MaxHop. Not placed.
	OutOfRange
)

// String says the reason in words.
func (r OrphanReason) String() string {
	return [...]string{"", "its parent was never listed", "its place in the lineage is occupied", "it is its own ancestor", "its hop is out of range"}[r]
}

// Orphan is a listed shard that does not fit: continuity is broken and a gap must be declared.
type Orphan struct {
	ID, Parent string
	Reason     OrphanReason
}

// RankShards ranks the listed shards that are not known yet. Known shards keep their hops. The result does not depend on the order
// of its arguments, and parents stand before their children in it. The first complete listing of a generation must be
// passed with first set: only then is a shard whose parent is not listed a root, since what was trimmed before we came is
// the load's business. Later, such a parent held changes that nobody read.
//
// As long as no orphan was reported, every known shard has a higher hop than its known ancestors. An orphan that can be
// read is both among the placed, so that the raised generation reads it and the next listing does not report it again,
// and among the orphans.
func RankShards(known []Node, listed []Shard, first bool) (placed []Node, orphans []Orphan) {
	f := newForest(known, listed, first)
	for _, id := range f.fresh {
		f.place(id)
	}
	slices.Sort(f.lost)
	for _, id := range f.lost {
		// Above everything, with one hop left free. A root's hop would not do: an unfinished shard of the same lineage that is
		// older than the missing parent may stand anywhere, and in the raised generation it would outrank this shard. The free
		// hop is for the parent, should it be listed after all.
		f.settle(id, f.highest+2)
		if !f.first { // what was trimmed before we came is the load's business
			f.report(id, UnknownParent)
		}
		f.placeBelow(id)
	}
	return f.placed, f.orphans
}

// Leaves are the known shards without a known child, sorted.
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
	parent   map[string]string   // of every shard that is known or listed
	children map[string][]string // of every shard, sorted
	hop      map[string]int      // of every shard that is known or placed
	fresh    []string            // listed and not known, sorted
	isFresh  map[string]bool     // the same
	seen     map[string]bool     // fresh shards that were dealt with
	ceilings map[string]int      // see ceiling
	lost     []string            // fresh shards whose parents are unknown
	highest  int                 // the highest hop of all
	lowest   int                 // the lowest hop of the known ones
	eldest   string              // the lowest id of the known ones; "" if there are none

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
		// A listing may leave a parent out and name it later.
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

// place settles a fresh shard after its fresh ancestors, unless one of those is lost.
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
		// A late ancestor: just below its lowest descendant, so that as much room as can be is left for those later still. It
		// may have no known ancestor at all; then whatever it descends from was, or would have been, a root before it.
		if isPlaced && above >= ceiling {
			f.report(id, NoRoom)
		}
		f.settle(id, ceiling)
	case isPlaced:
		f.settle(id, above+1)
	case f.isFresh[parent]:
		f.inherit(id, parent)
	case parent == "":
		// Without a parent it has no ancestors that could outrank it, and descendants are placed above it; so a root's hop is
		// right for a late one, too.
		f.settle(id, RootHop)
	case f.first && f.oldest(id):
		f.settle(id, f.below())
	default:
		f.lost = append(f.lost, id)
	}
}

// oldest tells whether no shard can be an ancestor of the given one, whose parent is not listed: ids begin with the time of creation.
// A listing may lack the middle of a lineage. A root's hop would then rank the younger end below the older one. Some shards may be known
// before the first listing is complete: those that were written down when another worker began it and did not end.
func (f *forest) oldest(id string) bool {
	return f.fresh[0] == id && (f.eldest == "" || id < f.eldest)
}

// below is the hop of the oldest shard: a root's, or, where some are known, one that leaves room for a shard between them.
func (f *forest) below() int {
	if f.eldest == "" {
		return RootHop
	}
	return f.lowest - 2
}

// inherit deals with a fresh shard whose fresh parent was not placed: it waits with a lost parent and is an orphan with an
// impossible one.
func (f *forest) inherit(id, parent string) {
	i := slices.IndexFunc(f.orphans, func(o Orphan) bool { return o.ID == parent })
	if i >= 0 {
		f.report(id, f.orphans[i].Reason)
		return
	}
	delete(f.seen, id) // placeBelow comes back to it
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

// ceiling is the highest hop a fresh shard may have below the known shards that descend from it, through fresh ones or at
// once; math.MaxInt if there are none. The shard is on no cycle, so that this ends.
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
