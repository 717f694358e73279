package standing

import (
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Shard is the state of one shard, as judged from the ledger.
type Shard struct {
	Over       bool              // no more changes are expected from the shard
	Unfollowed bool              // the shard ended, and its children are not listed
	Blocked    *checkpoint.Shard // the parent that must be read to its end first, or nil
	Silent     bool              // the shard's owner does not answer
	// Old reports that the shard has an owner, but its last read is more than three lease durations
	// ago.
	Old       bool
	Lag       *time.Duration // nil if unknown
	Estimated bool           // the lag is the time since the last empty read
	Headroom  *time.Duration // nil if unknown

	askedAt  time.Time
	future   bool // the last read has a future time, because clocks differ
	coverage coverage
	covered  time.Time
	reached  time.Time
}

// lineage holds the shards of one table and their relations.
type lineage struct {
	*Facts
	rows       map[string]*checkpoint.Shard // rows of the shards, by label and id
	unfollowed map[string]bool              // shards that ended and have unlisted children, by id
}

// listingGrace is how long the children of an ended shard may be missing from listings before that
// is reported. DynamoDB's listings may be minutes late.
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

// childless returns the shards that ended some time ago and have unknown children. For a suspended
// table it returns none, with one exception: a dropped table that the configuration still names, as
// long as its stream can be read. No other check reports unlisted children of such a table. The
// last shards of a dropped table have no children. A listing from some time after the end of these
// shards, or after the drop, proves that.
func (f *Facts) childless() []checkpoint.Shard {
	aside := f.Table.Suspended
	kept := f.Named && aside.Reason == Gone
	if aside.Reason != "" && !kept {
		return nil
	}
	return slices.DeleteFunc(checkpoint.Unfollowed(f.Table, f.Shards, f.Listings.At), func(s checkpoint.Shard) bool {
		if kept {
			// The condition waits for twice the grace time. Otherwise every dropped table would be
			// reported until the next listing, which comes within a minute.
			return f.Now.Sub(s.EndTime()) <= 2*listingGrace || f.Listings.At.Sub(s.EndTime()) >= listingGrace || f.Listings.At.Sub(aside.Since) >= 2*listingGrace
		}
		return f.Now.Sub(s.EndTime()) <= listingGrace
	})
}

// longGone reports whether all changes of a dropped table were read in time. Its stream must have
// ended, and must have been read to its end before the stream dropped changes.
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

// over reports whether no more changes are expected from a shard.
func (l *lineage) over(s *checkpoint.Shard) bool {
	return s.Label != l.Table.Label || (s.Finished() || s.Ended()) && !l.unfollowed[s.ID]
}

// blocked returns the parent that must be read to its end before the shard; nil if there is none. A
// parent that will be reopened must also be read to its end.
func (l *lineage) blocked(s *checkpoint.Shard) *checkpoint.Shard {
	if p := l.parent(s); p != nil && !(p.Ended() || p.State == checkpoint.Gap && !p.Reopens(l.Table.Label)) {
		return p
	}
	return nil
}

// silent reports whether the shard's owner does not answer.
func (l *lineage) silent(s *checkpoint.Shard) bool {
	return s.Owner != "" && !s.WrittenAt.IsZero() && !Answers(s.Heartbeat, l.Now, l.Lease)
}

// judge judges one shard by its row and those of its ancestors.
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

// coverage is the origin of the time up to which a shard is applied.
type coverage int

const (
	// Unknown: the shard was never read, and its ancestors do not show the time.
	coveredUnknown   coverage = iota
	coveredHere               // applied up to a known time
	coveredElsewhere          // the shard's parent is not read to its end, so the parent's time counts
)

// covers returns the time up to which all changes of an unfinished shard are applied, if it is
// known. If `empty` is true, it is the time of an empty page, which proves nothing. For an ended
// shard with unlisted children, it is the time with which the children's first read will be
// compared. The children began when the shard was closed, which may be long before the shard was
// read to its end.
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
		// The remaining changes of the trimmed parent must be read first.
		return time.Time{}, false, coveredUnknown
	case parent != nil && !parent.EndTime().IsZero():
		return l.passedOn(parent), true, coveredHere
	}
	return time.Time{}, false, coveredUnknown
}

// reaches returns the time of a shard's position. This time determines whether the shard was
// trimmed, and how much headroom it has. It returns `covered` instead if the shard's current worker
// has not read the shard yet, or if the shard has ended and its children are unlisted.
func (l *lineage) reaches(s *checkpoint.Shard, covered time.Time) time.Time {
	if at := s.PositionTime(); !l.unfollowed[s.ID] && !s.ReadAt.IsZero() && !at.IsZero() {
		return at
	}
	return covered
}

// passedOn returns the time up to which all changes before those of a finished shard's children are
// applied. The children began when the shard was closed. If the shard was read to its end long
// after that, the result is the time of the close. If both times are about the same, the result is
// the end of the read, because the time from covers would be earlier than necessary.
func (l *lineage) passedOn(s *checkpoint.Shard) time.Time {
	if at := s.Covers(l.Listings.Open[s.ID], l.Table.Owed()); !at.IsZero() && s.EndTime().Sub(at) > checkpoint.Slack+listingGrace {
		return at
	}
	return s.EndTime()
}

// askedAt returns when a readable shard was last read. If it was not read yet, the result is the
// time since which it could be read. For a shard that must wait, the result is zero. For an ended
// shard with unlisted children, it is the time of its end. The result `future` is true if the last
// read has a future time on a worker's clock, so that its real time is unknown.
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
		// A renewed lease proves nothing, because renewals succeed even if reads fail.
		return TroubleSince(s.Heartbeat, l.Now), false
	}
	return beatAt(s.Heartbeat), false // when the row was created, or the shard was acquired
}

// lastRead returns the latest time at which the shard was read. The row has this time by the
// worker's clock and by the service's clock. The error of a clock is known only for the shard's
// current owner. So the worker's time is used only if the current owner made the read; otherwise
// the service's time is used.
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
