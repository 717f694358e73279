package standing

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Figures are the measurements that determine a table's state. Unknown figures are nil or zero.
type Figures struct {
	// Lag is the largest lag of a shard. If Estimated is true, it is the time since the last empty
	// read of that shard.
	Lag       *time.Duration
	Estimated bool
	// Headroom is the least headroom of a shard: the time until the stream drops its oldest unread
	// change. If AtMost is true, the real headroom may be lower, because the headroom of some
	// shards is unknown.
	Headroom *time.Duration
	AtMost   bool
	// OldestRead is the earliest of the last reads of all readable shards. Old reports whether it
	// is more than three lease durations ago.
	OldestRead time.Time
	Old        bool
	// Unlisted reports that the stream had no complete listing for more than three lease durations.
	Unlisted  bool
	Childless time.Time // time since which listings have not shown the children of an ended shard
	// Behind is the number of published messages that are not known to be applied. TopicLag is the
	// maximum age of the oldest such message. Behind and TopicLag are nil if changes are not
	// applied from a topic. If the age is unknown, TopicLag is the age of the generation, and Lag
	// is nil.
	Behind   *uint64
	TopicLag *time.Duration

	open    int  // number of shards from which changes are expected
	unknown bool // the applied position of a shard is unknown
	future  bool // the last read of a shard has a future time, because clocks differ
}

// outlived reports whether some changes have waited longer than the stream keeps changes. Such
// changes may be lost. Only further reads show whether they are.
func (f *Figures) outlived() bool { return f.Headroom != nil && *f.Headroom <= 0 }

// headroomAt returns the headroom of a shard with changes that are applied up to the given time.
func headroomAt(reached, now time.Time) time.Duration {
	return cdc.Retention - max(0, now.Sub(reached))
}

// measure computes the table's figures from its shards.
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
		f.Old = false // no worker should read a paused table
	}
	if WaitsForListing(l.Table) {
		// The shards could not be read before begunAt.
		f.OldestRead, f.Old = begunAt(l.Table, l.Now), false
		f.Unlisted = (l.Table.Generation > 0 || !f.OldestRead.IsZero()) && !isFresh(f.OldestRead, l.Now, l.Lease)
	}
	if covered.IsZero() {
		return
	}
	// The lag of a shard in an unknown state is unknown. But its headroom must count, in case it is
	// the shard that will soon lose changes.
	headroom := headroomAt(reached, l.Now)
	f.Headroom, f.AtMost = &headroom, f.unknown
	if !f.unknown {
		lag := max(0, l.Now.Sub(covered))
		f.Lag, f.Estimated = &lag, estimated
	}
}

// measureTopic adds the figures of a table that is applied from a topic. Checkpoints show which
// changes are published. A shard's changes are applied up to its first message that is not known to
// be applied.
func (f *Facts) measureTopic(of *Figures) {
	behind, oldest := uint64(0), time.Duration(0)
	for _, s := range checkpoint.Unapplied(f.Table, f.Shards, f.Merged) {
		n, since := s.Waiting(f.Merged)
		behind += n
		if since.IsZero() {
			of.Lag = nil
			since = f.Table.AdoptedAt // this generation has published no messages before that time
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

// overdue reports whether published messages may have waited for more than three durations of a
// lease. Only the age counts, because under load there are always waiting messages.
func (f *Figures) overdue(lease time.Duration) bool {
	return f.Behind != nil && *f.Behind > 0 && (f.Lag == nil || *f.TopicLag > Fresh(lease))
}

// WaitsForListing reports whether the shards of a table are not read because its stream has had no
// complete listing yet. A suspended table does not wait for a listing.
func WaitsForListing(s checkpoint.TableState) bool {
	return s.Listed == 0 && !s.StreamEnded && s.Suspended.Reason == ""
}

// leastMinutes is the least number of a generation that is a time: the year 1971. A clock that was
// never set counts from 1970, and a generation is at least 1.
const leastMinutes = 365 * 24 * 60

// begunAt returns the time since which a table without a listing could have been read. The number
// of a generation is at least the number of minutes from 1970 to its beginning
// (checkpoint.NextGeneration). So the generation began before the end of that minute. The record's
// own time is not usable, because a coordinator renews it with every heartbeat, even if it cannot
// list shards. The time is zero, which means unknown, if the number of the generation is not a time.
func begunAt(s checkpoint.TableState, now time.Time) time.Time {
	if s.Generation == 0 {
		return s.Changed
	}
	if s.Generation < leastMinutes {
		return time.Time{}
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

// Headroom returns the least headroom of the given shards, and the number of shards with known
// headroom. The headroom of a shard is unknown if its position has no time, or if the service's
// time is unknown.
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

// AppliedTo returns the source time up to which all changes of a table are applied, according to
// its shards. The time is zero if it is unknown: a shard was not read yet, a gap waits for its
// load, or no worker replicates the table. When a shard has ended, the changes of its children are
// not applied before DynamoDB lists the children. So the time is at most the end of any shard with
// unlisted children. The argument `listings` has the listings of the table's stream.
func AppliedTo(table checkpoint.TableState, shards []checkpoint.Shard, listings checkpoint.Listings) time.Time {
	open := Open(table, shards)
	if len(open) == 0 {
		return time.Time{}
	}
	to := open[0].PositionTime()
	for _, s := range open {
		if s.State != checkpoint.Reading {
			return time.Time{} // its changes are older than all applied changes
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
