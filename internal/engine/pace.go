package engine

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// Wait returns the time before the next read of a shard, after the given number of consecutive
// empty pages. Soon after a change, another one often follows. So the wait is Soon at first. After
// cdc.EmptyRun empty pages, it doubles with each further page, up to Poll.
func (t Timing) Wait(empty int) time.Duration {
	rest := min(t.Soon, t.Poll)
	for range max(0, empty-cdc.EmptyRun) {
		if rest *= 2; rest >= t.Poll {
			return t.Poll
		}
	}
	return rest
}

// ledgerRows is the number of shard rows per second that the assigners of all workers may read
// together. At higher rates they read less often.
const ledgerRows = 2000

// LookAfter returns the time between two passes of an assigner. In one pass over all tables, a
// worker reads the given number of rows. If there are many workers, each makes fewer passes, so
// that all together read at most ledgerRows per second. But each worker makes at least one pass per
// lease duration, even above that rate.
func (t Timing) LookAfter(rows, workers int, lease time.Duration) time.Duration {
	all := time.Duration(rows) * time.Duration(workers) * time.Second / ledgerRows
	return max(t.Pass, min(all, lease))
}
