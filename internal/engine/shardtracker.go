package engine

import (
	"maps"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Tally holds the number of changes of each kind.
type Tally struct {
	Inserts, Modifies, Removes int
}

// Changes returns the total.
func (t Tally) Changes() int { return t.Inserts + t.Modifies + t.Removes }

// Count returns the number of changes of each kind.
func Count(changes []cdc.Change) Tally {
	var t Tally
	for _, c := range changes {
		switch c.Event {
		case cdc.Insert:
			t.Inserts++
		case cdc.Modify:
			t.Modifies++
		case cdc.Remove:
			t.Removes++
		}
	}
	return t
}

// ShardTracker holds the state of the shards that this worker reads. The lag, and the end of a run
// with --once, are computed from it.
type ShardTracker struct {
	mu     sync.Mutex
	shards map[string]*reading
	others map[string]*seen // shards that other workers read; used for --once
	// suspended reports that this worker, as coordinator, found that the table cannot be
	// replicated.
	suspended bool
	near      bool // a cutover is about to freeze writes, or has frozen them
	quiet     checkpoint.Quiet
	// over reports that this worker found the table dropped and all its shards known.
	over bool
}

// seen is the ledger's data on a shard that another worker reads. It begins when that worker last
// applied a change or had a backlog.
type seen struct {
	epoch    uint64
	position cdc.SequenceNumber
	since    time.Time     // time of the first empty read, on the clock of the shard's reader
	readAt   time.Time     // time of the last empty read
	at       time.Duration // when readAt last changed, on this worker's monotonic clock
}

// SetNear records whether a cutover is about to freeze the application's writes, or has frozen
// them.
func (b *ShardTracker) SetNear(near bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.near = near
}

// Near reports whether shards must be read often, because a cutover waits for their changes.
func (b *ShardTracker) Near() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.near
}

// SetQuiet records the application's last promise about its own writes to the target.
func (b *ShardTracker) SetQuiet(q checkpoint.Quiet) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.quiet = q
}

// Quiet returns the application's last promise about its own writes to the target.
func (b *ShardTracker) Quiet() checkpoint.Quiet {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.quiet
}

func (b *ShardTracker) SetSuspended(suspended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.suspended = suspended
}

func (b *ShardTracker) IsSuspended() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.suspended
}

// SetOver records whether all shards of the table are known. That is so if the table was dropped
// some time ago, and all shards that were listed since then have rows in the ledger.
func (b *ShardTracker) SetOver(over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.over = over
}

func (b *ShardTracker) IsOver() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over
}

type reading struct {
	left       bool          // the shard was released because the source did not answer
	event      time.Time     // event time of the last applied change
	reached    time.Time     // checkpoint.Shard.PositionTime; zero if it is not known
	caughtUp   bool          // the last page was empty
	emptyPages int           // number of consecutive empty pages
	emptySince time.Duration // when the first of these empty pages arrived
	emptyAt    time.Duration // when the last of these empty pages arrived
	settling   uint64        // number of changes that wait for their second application
	ended      bool          // the shard's last page was read, and only settling remains
}

func newShardTracker() ShardTracker {
	return ShardTracker{shards: map[string]*reading{}, others: map[string]*seen{}}
}

// Take records a shard that is about to be read. Until its first page is durable, which may take
// hours, its lag is computed from its ledger row. If the shard was never read, its lag is that of
// its start position. For a root, that lag is unknown.
func (b *ShardTracker) Take(s checkpoint.Shard) {
	upTo := s.EventTime
	switch {
	case s.CaughtUp:
		upTo = s.ReadTime()
	case upTo.IsZero() && !s.ReadAt.IsZero():
		upTo = s.ReadTime()
	case upTo.IsZero() && !s.CoveredTo.IsZero():
		upTo = s.CoveredTo.Add(checkpoint.Slack)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if upTo.IsZero() {
		delete(b.shards, s.ID)
		return
	}
	b.shards[s.ID] = &reading{event: upTo, reached: s.PositionTime()}
}

// Reach records the time of a shard's position.
func (b *ShardTracker) Reach(shard string, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.shards[shard]; r != nil {
		r.reached = at
	}
}

// headroom returns the time until the stream drops unread changes of any shard. The argument `now`
// is the service's time. The time of a shard's position may be unknown, so the result is at most
// the retention minus the lag.
func (b *ShardTracker) headroom(now time.Time, lag time.Duration) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	least := cdc.Retention - lag
	for _, r := range b.shards {
		if !r.reached.IsZero() && !now.IsZero() {
			least = min(least, cdc.Retention-now.Sub(r.reached))
		}
	}
	return least
}

// Read records a page, and returns the number of consecutive empty pages of the shard.
func (b *ShardTracker) Read(shard string, at checkpoint.Progress, now time.Duration) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.shards[shard]
	if r == nil {
		r = &reading{}
		b.shards[shard] = r
	}
	r.event, r.caughtUp = at.EventTime, at.CaughtUp
	if !at.CaughtUp {
		r.emptyPages = 0
		return 0
	}
	if r.emptyPages == 0 {
		r.emptySince = now
	}
	r.emptyPages++
	r.emptyAt = now
	return r.emptyPages
}

// Settling records the number of changes of a shard that are not settled yet.
func (b *ShardTracker) Settling(shard string, changes uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.shards[shard]; r != nil {
		r.settling = changes
	}
}

// End records the same as Settling, for a shard that was read to its end. Such a shard has no
// backlog.
func (b *ShardTracker) End(shard string, changes uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.shards[shard] = &reading{settling: changes, ended: true}
}

func (b *ShardTracker) Forget(shard string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.shards, shard)
}

// Leave records that a shard was released because the source did not answer. The shard still counts
// towards the lag, because this worker acquires it again if no other worker does.
func (b *ShardTracker) Leave(shard string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.shards[shard]; r != nil {
		r.left = true
	}
}

// Settle forgets released shards that another worker has acquired, or that no longer need a reader,
// according to the ledger's rows. It keeps shards that still wait for a reader.
func (b *ShardTracker) Settle(shards []checkpoint.Shard) {
	waiting := map[string]bool{}
	for _, s := range shards {
		if s.Owner == "" && !s.Finished() {
			waiting[s.ID] = true
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.shards, func(id string, r *reading) bool { return r.left && !waiting[id] })
}

// pageTime is the maximum age of the last empty page. If the last one is older, the shard does not
// count as idle.
const pageTime = 5 * time.Second

// Idle reports whether the shard has returned the required number of consecutive empty pages, over
// the required time. The last page must be recent. Pages from before a pause, or from before an
// outage of the service, prove nothing about later changes.
func (b *ShardTracker) Idle(shard string, t Timing, now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.shards[shard]
	return r != nil && !r.left && r.settling == 0 && r.emptyPages >= t.IdlePages && r.emptyAt-r.emptySince >= t.Idle && now-r.emptyAt <= t.Idle+t.Poll+pageTime
}

// IdleElsewhere does the same as Idle for a shard that another worker reads. It uses the ledger. By
// that worker's own clock, the worker must have read only empty pages for the required time, and
// its last read must be recent. Earlier data in the row does not count: it may be from before a
// gap, after which the shard was reopened. The argument `renew` is the maximum time between two
// reports of that worker.
func (b *ShardTracker) IdleElsewhere(s checkpoint.Shard, t Timing, renew, now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.Owner == "" || !s.CaughtUp || s.FirstRead.IsZero() {
		delete(b.others, s.ID)
		return false
	}
	o, readAt := b.others[s.ID], s.ReadTime()
	if o == nil || o.epoch != s.Epoch || o.position.Compare(s.Position) != 0 || readAt.Before(o.readAt) {
		b.others[s.ID] = &seen{s.Epoch, s.Position, readAt, readAt, now}
		return false
	}
	if readAt.After(o.readAt) {
		o.readAt, o.at = readAt, now
	}
	return o.readAt.Sub(o.since) >= t.Idle && now-o.at <= renew+t.Poll+t.Pass+pageTime
}

// lag returns the largest lag of the shards that this worker reads; false if it reads none. While
// changes of a shard wait, its lag is the age of the last applied change. Otherwise it is the time
// since the last empty page. That is only an estimate, because an empty page proves nothing.
func (b *ShardTracker) lag(now time.Time, mono time.Duration) (time.Duration, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	worst, known := time.Duration(0), false
	for _, r := range b.shards {
		if r.ended {
			continue
		}
		lag := mono - r.emptyAt
		if !r.caughtUp {
			lag = now.Sub(r.event)
		}
		worst, known = max(worst, lag), true
	}
	return worst, known
}
