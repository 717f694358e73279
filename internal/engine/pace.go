package engine

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// Wait returns how long a shard rests after the given number of empty pages in a row. A change is
// likely to be followed by another, so the shard is read every Soon until that number proves that
// it is empty. Then the rest doubles after each empty page, up to Poll.
func (t Timing) Wait(empty int) time.Duration {
	rest := min(t.Soon, t.Poll)
	for range max(0, empty-cdc.EmptyRun) {
		if rest *= 2; rest >= t.Poll {
			return t.Poll
		}
	}
	return rest
}

// ledgerRows is how many shard rows a second the assigners of all workers read together before they
// read less often.
const ledgerRows = 2000

// LookAfter returns how long an assigner rests between two passes. One pass over each table reads
// the given rows, and the given number of workers make passes. The rows that one worker reads a
// second do not grow with the number of workers. The total is bounded until each worker makes only
// one pass in a lease.
func (t Timing) LookAfter(rows, workers int, lease time.Duration) time.Duration {
	all := time.Duration(rows) * time.Duration(workers) * time.Second / ledgerRows
	return max(t.Pass, min(all, lease))
}
