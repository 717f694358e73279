package standing

import (
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Shard is the judged state of one shard.
type Shard struct {
	Over       bool              // no more changes are expected of it
	Unfollowed bool              // it ended, and its children are not listed
	Blocked    *checkpoint.Shard // the parent that must be finished first, or nil
	Silent     bool              // its owner does not answer
	Old        bool              // it has an owner, and was last read more than three leases ago
	Lag        *time.Duration    // nil if unknown
	Estimated  bool              // the lag is the time since the shard was last found empty
	Headroom   *time.Duration    // nil if unknown

	askedAt  time.Time
	future   bool // its last read is in the future: clocks differ
	coverage coverage
	covered  time.Time
	reached  time.Time
}

// lineage holds the shards of one table and their relations.
type lineage struct {
	*Facts
	rows       map[string]*checkpoint.Shard // by label and id
	unfollowed map[string]bool              // by id
}

// listingGrace is how long the children of an ended shard may be missing from listings before that
// is reported, because the service's listings may be minutes late.
const listingGrace = 5 * time.Minute

func lineageOf(f *Facts) *lineage {
	l := &lineage{Facts: f, rows: make(map[string]*checkpoint.Shard, len(f.Shards)), unfollowed: map[string]bool{}}
	for i := range f.Shards {
		l.rows[f.Shards[i].Label+"/"+f.Shards[i].ID] = &f.Shards[i]
	}
	for _, s := range f.childless() {
		l.unfollowed[s.ID] = true
	}
	return l
}

// childless returns the shards that ended a while ago and whose children are unknown. It skips
// suspended tables, which wait for something else. But a named table that was dropped is watched
// while its stream can be read, because nothing else reports its unlisted children. Its last shards
// ended with it and have no children. Any listing from a while after their end or after the drop
// shows that, however late they were read to their ends.
func (f *Facts) childless() []checkpoint.Shard {
	aside := f.Table.Suspended
	kept := f.Named && aside.Reason == Gone
	if aside.Reason != "" && !kept {
		return nil
	}
	return slices.DeleteFunc(checkpoint.Unfollowed(f.Table, f.Shards, f.Listings.At), func(s checkpoint.Shard) bool {
		if kept {
			// Twice the grace. Otherwise every dropped table would be reported for a moment: the
			// listing that shows its end comes within a minute.
			return f.Now.Sub(s.EndTime()) <= 2*listingGrace || f.Listings.At.Sub(s.EndTime()) >= listingGrace || f.Listings.At.Sub(aside.Since) >= 2*listingGrace
		}
		return f.Now.Sub(s.EndTime()) <= listingGrace
	})
}

// longGone reports whether no change of a dropped table can still be read late. That is so once its
// stream has ended too, and was read to its end in time.
func (l *lineage) longGone() bool {
	since := l.Table.Suspended.Since
	unread := func(s checkpoint.Shard) bool {
		return s.Label == l.Table.Label && !s.Finished() && !(s.CaughtUp && s.ReadTime().After(since))
	}
	return l.Now.Sub(since) > cdc.Retention && !slices.ContainsFunc(l.Shards, unread) && len(l.unfollowed) == 0
}

func (l *lineage) parent(s *checkpoint.Shard) *checkpoint.Shard { return l.rows[s.Label+"/"+s.Parent] }

func (l *lineage) isUnfollowed(s *checkpoint.Shard) bool {
	return s.Label == l.Table.Label && l.unfollowed[s.ID]
}

// over reports whether no more changes are expected of a shard.
func (l *lineage) over(s *checkpoint.Shard) bool {
	return s.Label != l.Table.Label || (s.Finished() || s.Ended()) && !l.unfollowed[s.ID]
}

// blocked returns the parent that must be finished first, or nil. A trimmed parent is read to its
// end before its children.
func (l *lineage) blocked(s *checkpoint.Shard) *checkpoint.Shard {
	if p := l.parent(s); p != nil && !(p.Ended() || p.State == checkpoint.Gap && p.Loss != checkpoint.Trimmed) {
		return p
	}
	return nil
}

// silent reports whether the shard's owner does not answer.
func (l *lineage) silent(s *checkpoint.Shard) bool {
	return s.Owner != "" && !s.WrittenAt.IsZero() && !Answers(s.Heartbeat, l.Now, l.Lease)
}

// judge judges one shard.
func (l *lineage) judge(s *checkpoint.Shard) Shard {
	out := Shard{Over: l.over(s), Unfollowed: l.isUnfollowed(s), Blocked: l.blocked(s), Silent: l.silent(s)}
	if out.Over {
		return out
	}
	out.askedAt, out.future = l.askedAt(s)
	out.Old = s.Owner != "" && !isFresh(out.askedAt, l.Now, l.Lease)
	var empty bool
	out.covered, empty, out.coverage = l.covers(s)
	if out.coverage == coveredHere {
		out.reached = l.reaches(s, out.covered)
		lag, headroom := max(0, l.Now.Sub(out.covered)), headroomAt(out.reached, l.Now)
		out.Lag, out.Headroom, out.Estimated = &lag, &headroom, empty
	}
	return out
}

// coverage says what is known about the applied position of a shard.
type coverage int

const (
	coveredUnknown   coverage = iota // it was never read, and its ancestors do not show it
	coveredHere                      // applied up to a known time
	coveredElsewhere                 // covered by its parent, which is behind, and counts
)

// covers returns the time up to which all changes of an unfinished shard are applied, if known.
// Empty says that it is the time of an empty page, which proves nothing. For unlisted children it
// is the time with which their first read will be compared. They began when their parent was
// closed, perhaps long before it was read to its end.
func (l *lineage) covers(s *checkpoint.Shard) (at time.Time, empty bool, state coverage) {
	parent := l.parent(s)
	switch {
	case l.unfollowed[s.ID]:
		return s.Covers(l.Listings.Open[s.ID], l.Table.Owed()), true, coveredHere
	case (s.CaughtUp || s.Settling.CaughtUp) && !s.ReadAt.IsZero():
		at, _ = l.lastRead(s)
		return at, true, coveredHere
	case !s.Settling.EventTime.IsZero():
		return s.Settling.EventTime, false, coveredHere
	case !s.EventTime.IsZero():
		return s.EventTime, false, coveredHere
	case !s.ReadAt.IsZero():
		at, _ = l.lastRead(s)
		return at, true, coveredHere
	case parent != nil && !parent.Finished() && !parent.Ended():
		return time.Time{}, false, coveredElsewhere
	case parent != nil && l.blocked(s) != nil:
		return time.Time{}, false, coveredUnknown // the rest of the trimmed parent comes first
	case parent != nil && !parent.EndTime().IsZero():
		return l.passedOn(parent), true, coveredHere
	}
	return time.Time{}, false, coveredUnknown
}

// reaches returns the time that decides whether a shard was trimmed, and from which its headroom
// follows: the time of its position. For a shard that this worker has not read yet, and for
// children of an ended shard, it is the time that covers it.
func (l *lineage) reaches(s *checkpoint.Shard, covered time.Time) time.Time {
	if at := s.PositionTime(); !l.unfollowed[s.ID] && !s.ReadAt.IsZero() && !at.IsZero() {
		return at
	}
	return covered
}

// passedOn returns the time up to which a finished shard covers its children. They began when it
// was closed. If it was read to its end long after that, their changes are as old as the close. If
// both times are about the same, passedOn returns the end of the read, because a shard's Covers is
// a bound that lies earlier by that difference.
func (l *lineage) passedOn(s *checkpoint.Shard) time.Time {
	if at := s.Covers(l.Listings.Open[s.ID], l.Table.Owed()); !at.IsZero() && s.EndTime().Sub(at) > checkpoint.Slack+listingGrace {
		return at
	}
	return s.EndTime()
}

// askedAt returns when a readable shard was last read, or else since when it could be read; zero
// for a shard that has to wait. If a shard's children are unlisted, they have not been read since
// it ended. Future says that a worker's clock puts the last read into the future and no other
// source shows the time.
func (l *lineage) askedAt(s *checkpoint.Shard) (at time.Time, future bool) {
	parent := l.parent(s)
	switch {
	case l.unfollowed[s.ID]:
		return s.EndTime(), false
	case s.Finished() || s.Ended() || l.blocked(s) != nil || l.Table.Listed == 0:
		return time.Time{}, false
	case !s.ReadAt.IsZero():
		return l.lastRead(s)
	case parent != nil && !parent.EndTime().IsZero():
		return parent.EndTime(), false
	case s.Trouble != (checkpoint.Trouble{}):
		return TroubleSince(s.Heartbeat, l.Now), false // renewals succeed even if reads fail
	}
	return beatAt(s.Heartbeat), false // when it was created or acquired
}

// lastRead returns the latest time at which the shard was read. Results of a read also carry the
// service's time, which no worker's clock affects. Only this time is used if the read was recorded
// under another worker's clock. That is so if the shard has no owner now, or its owner has not read
// it yet. How wrong that clock was is not recorded.
func (l *lineage) lastRead(s *checkpoint.Shard) (at time.Time, future bool) {
	ahead := func(t time.Time) bool { return t.Sub(l.Now) > Fresh(l.Lease) }
	shown, beat := later(s.EventTime, s.AppliedTo), beatAt(s.Heartbeat)
	at = s.ReadTime()
	others := s.Owner == "" || !beat.IsZero() && at.After(beat)
	switch {
	case others && !shown.IsZero():
		return shown, ahead(shown)
	case !ahead(at):
		at = later(at, shown)
		return at, ahead(at)
	case shown.IsZero() || ahead(shown):
		return at, true
	}
	return shown, !isFresh(shown, l.Now, l.Lease)
}
