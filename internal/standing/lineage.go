package standing

import (
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Shard is how one shard stands.
type Shard struct {
	Over       bool              // nothing is to be expected of it any more
	Unfollowed bool              // it ended, and nobody has listed its children
	Blocked    *checkpoint.Shard // the parent that has to be finished first; nil if there is none
	Silent     bool              // its owner does not answer
	Old        bool              // it has an owner, and was last read more than three leases ago
	Lag        *time.Duration    // nil if unknown
	Estimated  bool              // the lag is the time since the shard was last found empty
	Headroom   *time.Duration    // nil if unknown

	askedAt  time.Time
	future   bool // when it was read is in the future: clocks differ
	coverage coverage
	covered  time.Time
	reached  time.Time
}

// lineage is the shards of one table as they hang together.
type lineage struct {
	*Facts
	rows       map[string]*checkpoint.Shard // by label and id
	unfollowed map[string]bool              // by id
}

// listingGrace is how long a shard may have ended without a listing of its children before that is
// reported: the service's listings may be late by minutes.
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

// childless are the shards that ended a while ago while nobody knows what follows them. A table
// that is suspended waits for something else. But a named one that was dropped is kept while its
// stream can be read, and nothing else reports what nobody found of it. Its last shards ended with
// it and have no children, as any listing of a while after that shows, or after the drop, however
// late they were read to their ends.
func (f *Facts) childless() []checkpoint.Shard {
	aside := f.Table.Suspended
	kept := f.Named && aside.Reason == Gone
	if aside.Reason != "" && !kept {
		return nil
	}
	return slices.DeleteFunc(checkpoint.Unfollowed(f.Table, f.Shards, f.Listings.At), func(s checkpoint.Shard) bool {
		if kept {
			// Twice, or it would be reported for moments of every dropped table: the listing that
			// shows it comes within a minute.
			return f.Now.Sub(s.EndTime()) <= 2*listingGrace || f.Listings.At.Sub(s.EndTime()) >= listingGrace || f.Listings.At.Sub(aside.Since) >= 2*listingGrace
		}
		return f.Now.Sub(s.EndTime()) <= listingGrace
	})
}

// longGone reports whether nothing of a dropped table can be read late any more: its stream has
// ended too, and was read before that.
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

// over reports whether nothing is to be expected of a shard any more.
func (l *lineage) over(s *checkpoint.Shard) bool {
	return s.Label != l.Table.Label || (s.Finished() || s.Ended()) && !l.unfollowed[s.ID]
}

// blocked is the parent that has to be finished first; nil if there is none. A trimmed parent is
// read on before its children.
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

// coverage says what is known of how far a shard is applied.
type coverage int

const (
	coveredUnknown   coverage = iota // it was never read, and nothing before it says
	coveredHere                      // up to a time
	coveredElsewhere                 // by its parent, which is behind, and counts
)

// covers is the time up to which everything of a shard that is not over is applied, as far as that
// is known; empty if that is the time of an empty page, which proves nothing. Of children that
// nobody has listed it is what they will be held against when they are first read: they began when
// their parent was closed, which may be long before it was read to its end.
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
		return time.Time{}, false, coveredUnknown // what is left of the trimmed parent comes first
	case parent != nil && !parent.EndTime().IsZero():
		return l.passedOn(parent), true, coveredHere
	}
	return time.Time{}, false, coveredUnknown
}

// reaches is what a trim of a shard is judged by, and its headroom with it: the time of its
// position. Of one that was not read here yet, and of what follows one that ended, it is what
// covers it.
func (l *lineage) reaches(s *checkpoint.Shard, covered time.Time) time.Time {
	if at := s.PositionTime(); !l.unfollowed[s.ID] && !s.ReadAt.IsZero() && !at.IsZero() {
		return at
	}
	return covered
}

// passedOn is up to when a finished shard covers its children. They began when it was closed, and
// if it was read to its end long after that, what they hold is as old. Where the two are about the
// same it is when it was read to its end: what a shard Covers is a bound, earlier by as much.
func (l *lineage) passedOn(s *checkpoint.Shard) time.Time {
	if at := s.Covers(l.Listings.Open[s.ID], l.Table.Owed()); !at.IsZero() && s.EndTime().Sub(at) > checkpoint.Slack+listingGrace {
		return at
	}
	return s.EndTime()
}

// askedAt is when a shard that could be read was last read, or else since when it could be; zero
// for one that has to wait. Nothing has been read of what follows a shard whose children nobody has
// listed since that one ended. Future says that a worker's clock puts its last read into the
// future, and that nothing else says when that was.
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
		return s.Trouble.Since, false // renewals succeed however the reads fare
	}
	return beatAt(s.Heartbeat), false // when it was created or taken
}

// lastRead is the latest time at which the shard was read. What came of a read has the service's
// time too, which no worker's clock affects. Nothing else is believed where it is another worker's
// clock that shows the read: there is no owner any more, or the owner has written its row before.
// How wrong that clock was is not recorded.
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
