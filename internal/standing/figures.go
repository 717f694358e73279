package standing

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Figures are the measurements from which a table's state is judged. Unknown ones are nil or zero.
type Figures struct {
	// Lag is the largest lag of a shard. Estimated says that it is the time since that shard was
	// last found empty.
	Lag       *time.Duration
	Estimated bool
	// Headroom is the least headroom of a shard. AtMost says that the true value may be lower,
	// because some shards' headroom is unknown.
	Headroom *time.Duration
	AtMost   bool
	// OldestRead is the oldest last read of all shards that could be read. Old says that it is more
	// than three leases ago.
	OldestRead time.Time
	Old        bool
	Unlisted   bool      // no complete listing of the stream for more than three leases
	Childless  time.Time // since when the children of an ended shard are not listed
	// Behind is how many published messages are not known to be applied, and TopicLag the age that
	// the oldest of them has at most. Both are nil unless changes are applied from a topic. If the
	// age is unknown, TopicLag is the age of the generation, and Lag is nil.
	Behind   *uint64
	TopicLag *time.Duration

	open    int  // shards from which changes are expected
	unknown bool // some shard's applied position is unknown
	future  bool // some shard's last read is unknown, because clocks differ
}

// outlived reports whether some changes have waited longer than the stream keeps changes. Later
// changes may be lost; only further reads can show that.
func (f *Figures) outlived() bool { return f.Headroom != nil && *f.Headroom <= 0 }

// headroomAt returns the headroom of a shard that is applied up to a time.
func headroomAt(reached, now time.Time) time.Duration {
	return cdc.Retention - max(0, now.Sub(reached))
}

// measure judges the shards, and computes the table's figures from them.
func (l *lineage) measure(s *Standing) {
	var covered, reached time.Time
	var estimated bool
	f := &s.Figures
	s.Drained = s.Dropped
	s.Shards = make([]Shard, len(l.Shards))
	for i := range l.Shards {
		row := &l.Shards[i]
		shard := l.judge(row)
		s.Shards[i] = shard
		if shard.Over {
			continue
		}
		s.Drained = false
		f.open++
		f.future = f.future || shard.future
		if shard.Unfollowed {
			f.Childless = earliest(f.Childless, row.EndTime())
		}
		switch shard.coverage {
		case coveredUnknown:
			f.unknown = true
		case coveredHere:
			if covered.IsZero() || shard.covered.Before(covered) {
				covered, estimated = shard.covered, shard.Estimated
			}
			reached = earliest(reached, shard.reached)
		}
		f.OldestRead = earliest(f.OldestRead, shard.askedAt)
	}
	f.Old = !f.OldestRead.IsZero() && !isFresh(f.OldestRead, l.Now, l.Lease)
	if l.Table.Paused() {
		f.Old = false // the operator wants no worker to read it
	}
	if WaitsForListing(l.Table) {
		f.OldestRead, f.Old = begunAt(l.Table, l.Now), false // no read could be old yet
		f.Unlisted = !f.OldestRead.IsZero() && !isFresh(f.OldestRead, l.Now, l.Lease)
	}
	if covered.IsZero() {
		return
	}
	// A shard in an unknown state may be further behind than all others. It must not hide that one
	// of those is about to lose changes.
	headroom := headroomAt(reached, l.Now)
	f.Headroom, f.AtMost = &headroom, f.unknown
	if !f.unknown {
		lag := max(0, l.Now.Sub(covered))
		f.Lag, f.Estimated = &lag, estimated
	}
}

// measureTopic adds the figures of a table that is applied from a topic. Checkpoints show which
// changes are published. The unbroken prefix of each shard's messages shows which are applied.
func (f *Facts) measureTopic(of *Figures) {
	behind, oldest := uint64(0), time.Duration(0)
	for _, s := range checkpoint.Unapplied(f.Table, f.Shards, f.Merged) {
		n, since := s.Waiting(f.Merged)
		behind += n
		if since.IsZero() {
			of.Lag = nil
			since = f.Table.AdoptedAt // this generation published nothing before
		}
		lag := f.Now.Sub(since)
		if !since.IsZero() {
			oldest = max(oldest, lag)
		}
		if of.Lag != nil && lag > *of.Lag {
			of.Lag, of.Estimated = &lag, false
		}
	}
	of.Behind, of.TopicLag = &behind, &oldest
}

// overdue reports whether published messages may be more than three leases old. Under load some
// message always waits, so only the age counts.
func (f *Figures) overdue(lease time.Duration) bool {
	return f.Behind != nil && *f.Behind > 0 && (f.Lag == nil || *f.TopicLag > Fresh(lease))
}

// WaitsForListing reports whether no shard of a table is read because its stream never had a
// complete listing. A suspended table does not wait for a listing.
func WaitsForListing(s checkpoint.TableState) bool {
	return s.Listed == 0 && !s.StreamEnded && s.Suspended.Reason == ""
}

// begunAt returns since when a table that was never listed could have been read. A generation is at
// least the number of minutes since 1970 at which it began (checkpoint.NextGeneration), so it began
// by the end of that minute. The record's own time does not help: a coordinator that cannot list
// renews it with every heartbeat.
func begunAt(s checkpoint.TableState, now time.Time) time.Time {
	if s.Generation == 0 {
		return s.Changed
	}
	if at := time.Unix((int64(s.Generation)+1)*60, 0); at.Before(now) {
		return at
	}
	return now
}

// Open returns the unfinished shards of a table's stream.
func Open(table checkpoint.TableState, shards []checkpoint.Shard) (open []*checkpoint.Shard) {
	for i := range shards {
		if s := &shards[i]; s.Label == table.Label && !s.Finished() {
			open = append(open, s)
		}
	}
	return open
}

// Headroom returns the least headroom of some shards, and for how many it is known. It is unknown
// for a shard whose position has no time, and for all shards if the service's time is unknown.
func Headroom(shards []*checkpoint.Shard, now time.Time) (least time.Duration, known int) {
	if now.IsZero() {
		return 0, 0
	}
	for _, s := range shards {
		at := s.PositionTime()
		if at.IsZero() {
			continue
		}
		if left := cdc.Retention - now.Sub(at); known == 0 || left < least {
			least = left
		}
		known++
	}
	return least, known
}

// AppliedTo returns the source time up to which all changes of a table are applied, by its shards.
// It is zero if that is unknown: a shard was not read yet, a gap waits for its load, or no worker
// follows the table. Children of a shard that was read to its end began when it was closed, and
// none of their changes is applied before they are listed. Listings are the listings of the table's
// stream.
func AppliedTo(table checkpoint.TableState, shards []checkpoint.Shard, listings checkpoint.Listings) time.Time {
	open := Open(table, shards)
	if len(open) == 0 {
		return time.Time{}
	}
	to := open[0].PositionTime()
	for _, s := range open {
		if s.State != checkpoint.Reading {
			return time.Time{} // its changes are older than any applied one
		}
		to = earlier(to, s.PositionTime())
	}
	for _, s := range checkpoint.Unfollowed(table, shards, listings.At) {
		to = earlier(to, s.Covers(listings.Open[s.ID], table.Owed()))
	}
	return to
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
