package engine

import (
	"maps"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Tally counts changes by event.
type Tally struct {
	Inserts, Modifies, Removes int
}

// Changes returns the total.
func (t Tally) Changes() int { return t.Inserts + t.Modifies + t.Removes }

// Count tallies changes.
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

// ShardTracker is this worker's memory of the shards that it reads. Lag and --once are computed
// from it.
type ShardTracker struct {
	mu        sync.Mutex
	shards    map[string]*reading
	others    map[string]*seen // shards that other workers read, for --once
	suspended bool             // this worker's coordinator found that the table cannot be followed
	near      bool             // a cutover is about to freeze the application, or has frozen it
	over      bool             // it found that the table was dropped and all its shards are known
}

// seen is the ledger's view of a shard that another worker reads, since it caught up and no change
// was applied.
type seen struct {
	epoch    uint64
	position cdc.SequenceNumber
	since    time.Time     // time of the first empty read, on its reader's clock
	readAt   time.Time     // time of the last one
	at       time.Duration // when this worker last saw readAt move
}

// SetNear records whether a cutover is about to freeze the application, or has frozen it.
func (b *ShardTracker) SetNear(near bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.near = near
}

// Near reports whether the shards are to be read often, because a cutover waits for them.
func (b *ShardTracker) Near() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.near
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

// SetOver records whether the table was dropped a while ago and all shards listed since then have
// rows: no more shards will come.
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
	left       bool          // released because the source did not answer
	event      time.Time     // of the last applied change
	reached    time.Time     // checkpoint.Shard.PositionTime; zero if it is not known
	caughtUp   bool          // the last page was empty
	emptyPages int           // in a row
	emptySince time.Duration // when the first of them arrived
	emptyAt    time.Duration // when the last of them arrived
	settling   uint64        // changes asserted once that wait for the second assertion
	ended      bool          // its last page was read: only settling is left
}

func newShardTracker() ShardTracker {
	return ShardTracker{shards: map[string]*reading{}, others: map[string]*seen{}}
}

// Take records a shard that is about to be read. Until its first page is durable, which may take
// hours, its lag is the lag in its ledger row. For a shard that was never read, it is the lag of
// the position where it starts; for a root it is unknown.
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

// headroom returns the time that the stream leaves to the shard nearest to losing changes, at the
// service's time now. It is at most the retention less the lag, because a position may have no time
// yet.
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

// Read records a page, and returns how many pages in a row were empty.
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

// Settling records how many changes of a shard are still to be settled.
func (b *ShardTracker) Settling(shard string, changes uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.shards[shard]; r != nil {
		r.settling = changes
	}
}

// End is Settling for a shard that was read to its end: it is no longer behind.
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

// Leave records that a shard was released because the source did not answer. It still counts as
// before, because this worker acquires it again if no other worker does.
func (b *ShardTracker) Leave(shard string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.shards[shard]; r != nil {
		r.left = true
	}
}

// Settle forgets released shards that another worker acquired or that no longer need a reader, by
// the ledger's rows. It keeps those that still wait.
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

// pageTime is how long a page may be in transit before earlier reads no longer count.
const pageTime = 5 * time.Second

// Idle reports whether the shard has returned as many empty pages in a row as Once requires, over
// the required time. The last of them must have come just now. Pages from before a pause, or from
// before the service stopped answering, prove nothing about later changes.
func (b *ShardTracker) Idle(shard string, t Timing, now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.shards[shard]
	return r != nil && !r.left && r.settling == 0 && r.emptyPages >= t.IdlePages && r.emptyAt-r.emptySince >= t.Idle && now-r.emptyAt <= t.Idle+t.Poll+pageTime
}

// IdleElsewhere is Idle for a shard that another worker reads, according to the ledger. By its own
// clock, that worker must have kept reading for the required time, until just now, and found
// nothing. Its reports from before its first read may predate a gap, after which the shard was
// reopened. Renew is the longest time between two reports.
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

// lag returns the lag of the worst shard read here. It is the age of the last applied change while
// more changes wait, and otherwise the time since the last empty page. The second is an estimate,
// because an empty page proves nothing. False if no shard is read here.
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
