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

// Changes is how many there are.
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

// ShardTracker is what this worker knows of the shards it reads, for the lag and for --once.
type ShardTracker struct {
	mu        sync.Mutex
	shards    map[string]*reading
	others    map[string]*seen // shards that other workers read, for --once
	suspended bool             // the coordinator here found that the table cannot be followed
	over      bool             // and that it was dropped, and that all its shards are known
}

// seen is what the ledger showed of a shard that another worker reads, since it was caught up and
// nothing was applied.
type seen struct {
	epoch    uint64
	position cdc.SequenceNumber
	since    time.Time     // when it was read for the first of these, on its reader's clock
	readAt   time.Time     // and for the last
	at       time.Duration // when it was seen to be read again
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

// SetOver notes whether the table was dropped a while ago, and all shards of its stream that were
// listed since have rows: there will be no more.
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
	left       bool          // it was given up because the source did not answer
	event      time.Time     // of the last applied change
	reached    time.Time     // checkpoint.Shard.PositionTime; zero if it is not known
	caughtUp   bool          // the last page was empty
	emptyPages int           // in a row
	emptySince time.Duration // when the first of them was given
	emptyAt    time.Duration // when the last of them was given
	settling   uint64        // changes that were applied for the first of two times
	ended      bool          // its last page was: what is left is to settle them
}

func newShardTracker() ShardTracker {
	return ShardTracker{shards: map[string]*reading{}, others: map[string]*seen{}}
}

// Take notes a shard that is about to be read, as far behind as its record tells: until its first
// page is durable nothing else is known of it, which may take hours. Of one that was never read it
// is what it goes on from; of a root nothing is known.
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

// Reach notes the time of a shard's position.
func (b *ShardTracker) Reach(shard string, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.shards[shard]; r != nil {
		r.reached = at
	}
}

// headroom is what the stream leaves of the shard that is nearest to losing changes, at the
// service's time now, and at most what the lag leaves: of a shard whose position has no time yet
// nothing else is known.
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

// Read notes a page, and tells how many in a row were empty.
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

// Settling notes how many changes of a shard are still to be settled.
func (b *ShardTracker) Settling(shard string, changes uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.shards[shard]; r != nil {
		r.settling = changes
	}
}

// End is settling for a shard that was read to its end: it is not behind any more.
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

// Leave notes that a shard was given up because the source did not answer. For now it counts as
// before: perhaps nobody else takes it, and this worker takes it back.
func (b *ShardTracker) Leave(shard string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r := b.shards[shard]; r != nil {
		r.left = true
	}
}

// Settle forgets the shards that were given up and that are somebody else's business by now, or
// nobody's, as the ledger's rows show: all but those that still wait.
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

// pageTime is how long a page may be on its way before what was read before it counts no more.
const pageTime = 5 * time.Second

// Idle reports whether the shard has given as many empty pages in a row as Once asks for, over as
// long, and the last of them just now: what was found before a pause, or while the service has not
// answered since, says nothing of what came after.
func (b *ShardTracker) Idle(shard string, t Timing, now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.shards[shard]
	return r != nil && !r.left && r.settling == 0 && r.emptyPages >= t.IdlePages && r.emptyAt-r.emptySince >= t.Idle && now-r.emptyAt <= t.Idle+t.Poll+pageTime
}

// IdleElsewhere is idle for a shard that another worker reads, as far as the ledger says: it went
// on reading for as long, by its own clock, found nothing, and did so until just now. What it tells
// before its first read is older than a gap, after which it was reopened. Renew is how often it
// tells at the least.
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

// lag is that of the worst shard read here: the age of the last applied change while there are
// more; otherwise the time since the last empty page, which is an estimate, since an empty page
// proves nothing. False if no shard is read here.
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
