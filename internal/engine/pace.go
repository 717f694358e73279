package engine

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// Wait is how long a shard rests after so many empty pages in a row. It is asked every Soon until
// their number proves that nothing was there, because a change is likely to be followed by another,
// and from then on it rests twice as long after each, up to Poll.
func (t Timing) Wait(empty int) time.Duration {
	rest := min(t.Soon, t.Poll)
	for range max(0, empty-cdc.EmptyRun) {
		if rest *= 2; rest >= t.Poll {
			return t.Poll
		}
	}
	return rest
}

// ledgerRows is how many rows of shards the assigners of all workers together read a second before
// they look less often.
const ledgerRows = 2000

// LookAfter is how long an assigner rests between two looks, if one at each table reads so many rows
// and so many workers look. What a worker reads a second does not grow with their number, and what
// all of them read is bounded until they look once in a lease.
func (t Timing) LookAfter(rows, workers int, lease time.Duration) time.Duration {
	all := time.Duration(rows) * time.Duration(workers) * time.Second / ledgerRows
	return max(t.Pass, min(all, lease))
}
