package drain

import (
	"slices"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
)

// leastBatch is the smallest limit of a batch. A table with many open shards has a higher limit.
const leastBatch = 256

// Cover describes what is known about the open shards of one table.
type Cover struct {
	Open      int // number of open shards
	Uncovered int // number of open shards that at most one known canary reaches
	Read      int // number of candidates of this attempt that were read
	Written   int // number of canaries that the table may hold
}

// CoverOf returns what the shards' rows say about candidates.
func CoverOf(c checkpoint.Cutover, source string, f readiness.Figures) (found Cover) {
	l := LineageOf(f)
	for _, sh := range l.leaves(f) {
		found.Open++
		if len(l.reach(sh)) < checkpoint.CanariesPerShard {
			found.Uncovered++
		}
	}
	for _, sh := range l.rows {
		if sh.Sighted.Candidate == c.CandidateRound() {
			found.Read += sh.Sighted.Candidates
		}
	}
	found.Written = c.Candidates[source]
	return found
}

// Canaries returns the indices of the canaries that are written after the freeze. If no candidate
// has shown which canaries reach the open shards, the first ones are written.
func Canaries(f readiness.Figures) (indices []int) {
	l := LineageOf(f)
	for _, sh := range l.leaves(f) {
		indices = append(indices, l.reach(sh)...)
	}
	if len(indices) == 0 {
		return []int{0, 1}
	}
	slices.Sort(indices)
	return slices.Compact(indices)
}

// NextBatch returns how many candidates to write next. The batches grow, because a shard that no
// candidate has reached has a small range of keys.
func (c Cover) NextBatch(most int) int {
	if c.Uncovered == 0 {
		return 0
	}
	return max(0, min(max(4*c.Uncovered, c.Written), max(leastBatch, 4*c.Open), most-c.Written))
}
