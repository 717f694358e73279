package drain

import (
	"slices"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

// Lineage holds the shards of a table's stream that a drain must prove.
type Lineage struct {
	rows     map[string]*checkpoint.Shard
	children map[string][]*checkpoint.Shard
	roots    []*checkpoint.Shard
}

// LineageOf returns the lineage of the figures of a table.
func LineageOf(f readiness.Figures) Lineage {
	l := Lineage{rows: map[string]*checkpoint.Shard{}, children: map[string][]*checkpoint.Shard{}}
	var counted []*checkpoint.Shard
	for i := range f.Shards {
		sh := &f.Shards[i]
		// The last load covers the changes of this gap.
		filled := sh.State == checkpoint.Gap && sh.Generation < f.State.Base
		if sh.Label == f.State.Label && !filled {
			l.rows[sh.ID] = sh
			counted = append(counted, sh)
		}
	}
	for _, sh := range counted {
		if l.rows[sh.Parent] == nil {
			l.roots = append(l.roots, sh)
		} else {
			l.children[sh.Parent] = append(l.children[sh.Parent], sh)
		}
	}
	return l
}

// leaves returns the shards that new changes may go to.
func (l Lineage) leaves(f readiness.Figures) (leaves []*checkpoint.Shard) {
	for _, sh := range standing.Open(f.State, f.Shards) {
		if !sh.Ended() {
			leaves = append(leaves, sh)
		}
	}
	return leaves
}

// reach returns the indices of canaries that reach a shard. A shard that replaces its parent alone
// has the parent's range, so the parent's canaries reach it too.
func (l Lineage) reach(sh *checkpoint.Shard) (indices []int) {
	for ; sh != nil && len(indices) < checkpoint.CanariesPerShard; sh = l.replaced(sh) {
		for _, i := range sh.Sighted.ReachedBy() {
			if !slices.Contains(indices, i) {
				indices = append(indices, i)
			}
		}
	}
	return indices[:min(len(indices), checkpoint.CanariesPerShard)]
}

// replaced returns the parent of a shard if the shard is its only child; otherwise nil.
func (l Lineage) replaced(sh *checkpoint.Shard) *checkpoint.Shard {
	parent := l.rows[sh.Parent]
	if parent == nil || !parent.Complete || len(l.children[parent.ID]) != 1 {
		return nil
	}
	return parent
}

// Has reports whether a drain must prove a shard.
func (l Lineage) Has(id string) bool { return l.rows[id] != nil }
