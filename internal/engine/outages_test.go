package engine

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// TestH63_SilenceIsWithoutABreak: only failures that may not affect another worker count. A failure
// that shows that the source has answered restarts the count.
func TestH63_SilenceIsWithoutABreak(t *testing.T) {
	failure := func(r cdc.Reason) error { return &cdc.Error{Op: "GetRecords", Reason: r, Err: errors.New("no")} }
	var s silence
	for i, step := range []struct {
		err  error
		now  time.Duration
		want time.Duration
	}{
		{failure(cdc.Unavailable), 10, 0},
		{failure(cdc.Denied), 13, 3},
		{failure(cdc.Malformed), 17, 7},
		{failure(cdc.Throttled), 20, 10}, // neither counts nor restarts
		{failure(cdc.Denied), 21, 11},
		{errors.New("of the ledger"), 25, 0}, // the source has answered meanwhile
		{failure(cdc.Throttled), 27, 0},
		{failure(cdc.Throttled), 29, 0},
		{failure(cdc.Denied), 30, 0},
		{failure(cdc.Denied), 31, 1},
		{&sink.Error{Op: "CheckAndMutateRow", Reason: sink.Denied}, 40, 0}, // the target's, which every lease needs anyway
		{failure(cdc.Unreadable), 45, 0},                                   // the same for every worker: the shard stays, and status names the record
		{failure(cdc.Unreadable), 48, 0},
		{failure(cdc.Unavailable), 50, 0},
		{failure(cdc.Unavailable), 59, 9},
	} {
		if got := s.lasts(step.err, step.now); got != step.want {
			t.Errorf("step %d: %v lasts for %d, want %d", i, step.err, got, step.want)
		}
	}
}

// Shards that others keep permanently are forgotten, because streams get new shards all the time.
func TestWhatWasGivenUpLongAgoIsForgotten(t *testing.T) {
	var v Outages
	for n := range 100 {
		id, now := fmt.Sprint(n), time.Duration(n)*time.Minute
		v.Since(id, checkpoint.Trouble{Step: "read", Since: time.Unix(1, 0)}, now)
		v.GiveUp(id, now)
	}
	if len(v.tries) > int(sameOutage/time.Minute)+2 {
		t.Errorf("%d shards are remembered", len(v.tries))
	}
}

// A released shard is reported only until another worker reads it, as far as is known.
func TestGivenUpIsSettled(t *testing.T) {
	for _, c := range []struct {
		name string
		rows []checkpoint.Shard
		told bool
	}{
		{"nobody has it", []checkpoint.Shard{{ID: "s", State: checkpoint.Reading}}, true},
		{"another worker reads it", []checkpoint.Shard{{ID: "s", State: checkpoint.Reading, Owner: "other"}}, false},
		{"another worker has read it to its end", []checkpoint.Shard{{ID: "s", State: checkpoint.Done}}, false},
		{"the ledger cannot be read", nil, false},
	} {
		b := newShardTracker()
		b.Read("s", checkpoint.Progress{CaughtUp: true}, 0)
		b.Read("here", checkpoint.Progress{CaughtUp: true}, time.Hour)
		b.Leave("s")
		b.Leave("never read")
		b.Settle(c.rows)
		if lag, _ := b.lag(time.Time{}, 2*time.Hour); (lag == 2*time.Hour) != c.told || lag < time.Hour {
			t.Errorf("%s: a lag of %s", c.name, lag)
		}
	}
}
