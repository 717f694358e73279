package engine

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

const (
	// ActiveFor is how long a shard counts as active after its last change.
	ActiveFor = 10 * time.Second
	// backoffAfter is how long a shard without changes is still read at the interval Poll.
	backoffAfter = time.Minute
	// longestPoll is the time between two reads of a shard that had no change for minutes, unless
	// Poll is longer.
	longestPoll = 3 * time.Second
	// provingPoll is the time between two reads of a shard without changes, until empty pages prove
	// that it has no backlog. It is short, but thousands of shards that are acquired at once need
	// it at the same time.
	provingPoll = time.Second
)

// Between returns the time from one request for a shard's changes to the next. The service allows
// five requests per second and shard. The argument `empty` is the number of consecutive empty
// pages, and `quiet` is the time since the last change. A shard is active for some time after a
// change, because another change often follows. The time from Poll to longestPoll grows with
// `quiet`.
func (t Timing) Between(empty int, quiet time.Duration) time.Duration {
	switch {
	case quiet < ActiveFor:
		return min(t.Soon, t.Poll)
	case empty <= cdc.EmptyRun:
		return min(max(t.Soon, provingPoll), t.Poll)
	case quiet < backoffAfter:
		return t.Poll
	}
	return max(t.Poll, min(quiet/60, longestPoll))
}

// LongIdle returns the time between two requests for a shard that had no change for minutes.
func (t Timing) LongIdle() time.Duration { return max(t.Poll, longestPoll) }

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

// LookBetween returns the mean time between two passes of one assigner in a large fleet. At that
// mean, all workers read at most ledgerRows per second, or each row once per Pass if there are
// more than ledgerRows for each second of Pass. The number of workers does not change these rates.
func (t Timing) LookBetween(rows, workers int) time.Duration {
	return time.Duration(workers) * min(time.Duration(rows)*time.Second/ledgerRows, t.Pass)
}
