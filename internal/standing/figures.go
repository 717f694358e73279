package standing

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Figures are what a table's word rests on. What is unknown is nil or zero.
type Figures struct {
	// Lag is how far the shard is behind that is furthest, and Estimated says that it is the time
	// since it was last found empty.
	Lag       *time.Duration
	Estimated bool
	// Headroom is what the stream leaves of the shard that is nearest to losing changes. AtMost says
	// that it may be less, because it is unknown for some shards.
	Headroom *time.Duration
	AtMost   bool
	// OldestRead is when the shard was last read that was not read for the longest time, of those
	// that could be, and Old says that this is more than three leases ago.
	OldestRead time.Time
	Old        bool
	Unlisted   bool      // the stream was not listed as a whole for more than three leases
	Childless  time.Time // since when the children of a shard that ended are not listed
	// Behind is how many messages are published and not known to be applied, and TopicLag how old
	// the oldest of them is at most; nil unless changes are applied from a topic.
	Behind   *uint64
	TopicLag *time.Duration

	open    int  // shards of which something is expected
	unknown bool // of some shard it is not known how far it is applied
	future  bool // of some shard it is not known when it was read, because clocks differ
}

// outlived reports whether something is not applied for longer than the stream keeps changes. What
// came since may be lost, which only reading on shows.
func (f *Figures) outlived() bool { return f.Headroom != nil && *f.Headroom <= 0 }

// headroomAt is what a stream leaves of a shard that is applied up to a time.
func headroomAt(reached, now time.Time) time.Duration {
	return cdc.Retention - max(0, now.Sub(reached))
}

// measure judges the shards, and the table by them.
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
		f.Old = false // that nobody reads it is as the operator wants it
	}
	if WaitsForListing(l.Table) {
		f.OldestRead, f.Old = begunAt(l.Table, l.Now), false // there was nothing yet that could be old
		f.Unlisted = !f.OldestRead.IsZero() && !isFresh(f.OldestRead, l.Now, l.Lease)
	}
	if covered.IsZero() {
		return
	}
	// A shard of which nothing is known may be further behind than all others: it must not hide
	// that one of them is about to lose changes.
	headroom := headroomAt(reached, l.Now)
	f.Headroom, f.AtMost = &headroom, f.unknown
	if !f.unknown {
		lag := max(0, l.Now.Sub(covered))
		f.Lag, f.Estimated = &lag, estimated
	}
}

// measureTopic adds what is known of a table that is applied from a topic: checkpoints say what is
// published, and the unbroken prefix of each shard's messages what is applied.
func (f *Facts) measureTopic(of *Figures) {
	behind, oldest := uint64(0), time.Duration(0)
	for _, s := range checkpoint.Unapplied(f.Table, f.Shards, f.Merged) {
		n, applied := s.Behind(f.Merged)
		behind += n
		since := applied.At
		if since.IsZero() {
			of.Lag = nil              // nothing is known to be applied
			since = f.Table.AdoptedAt // nothing of the generation was published before
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

// WaitsForListing reports whether nothing of a table is read because its stream was never listed as
// a whole. One that is suspended waits for something else.
func WaitsForListing(s checkpoint.TableState) bool {
	return s.Listed == 0 && !s.StreamEnded && s.Suspended.Reason == ""
}

// begunAt is since when a table that was never listed could have been read. A generation is at
// least the number of minutes since 1970 at which it was begun (checkpoint.NextGeneration), so that
// it was begun by the end of that minute; the record's own time is renewed with every beat of a
// coordinator that cannot list.
func begunAt(s checkpoint.TableState, now time.Time) time.Time {
	if s.Generation == 0 {
		return s.Changed
	}
	if at := time.Unix((int64(s.Generation)+1)*60, 0); at.Before(now) {
		return at
	}
	return now
}

// Open are the shards of a table's stream that are not finished.
func Open(table checkpoint.TableState, shards []checkpoint.Shard) (open []*checkpoint.Shard) {
	for i := range shards {
		if s := &shards[i]; s.Label == table.Label && !s.Finished() {
			open = append(open, s)
		}
	}
	return open
}

// Headroom is how long the service keeps what the slowest of some shards has not applied yet, and
// how many shards say so. Of one without a time of its position it is unknown; so it is of all
// where the service's time is.
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

// AppliedTo is the time of the source up to which every change of a table is applied, by its
// shards; zero if nothing says so: a shard was not read yet, a gap is to be loaded, or nobody
// follows the table. What follows a shard that was read to its end began when it was closed, and
// nothing of it is applied before it is listed. Listings are those of the table's stream.
func AppliedTo(table checkpoint.TableState, shards []checkpoint.Shard, listings checkpoint.Listings) time.Time {
	open := Open(table, shards)
	if len(open) == 0 {
		return time.Time{}
	}
	to := open[0].PositionTime()
	for _, s := range open {
		if s.State != checkpoint.Reading {
			return time.Time{} // what it holds was committed before anything in it is applied
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
