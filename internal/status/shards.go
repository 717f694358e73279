package status

import (
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/loads"
)

// Why a shard does not get on: the codes of whyStatus.
const (
	whyListing  = "listing"  // the stream was not listed as a whole yet
	WhyChildren = "children" // it is done, and what follows it was not listed
	WhyParent   = "parent"   // its parent comes first
	WhyNobody   = "nobody"   // it could be read, and no worker has taken it
	WhySilent   = "silent"   // its worker has not been heard of for longer than a lease
	WhyTrouble  = "trouble"  // a step fails and is repeated
	whyGap      = "gap"      // it cannot be continued
	whyReplaced = "replaced" // its stream is not the table's any more
)

// Shard is one shard. Its position is a sequence number, which tells nothing of any item.
type Shard struct {
	Source string  `json:"source"`
	Stream string  `json:"stream"` // label
	ID     string  `json:"id"`
	Parent *string `json:"parent"`
	State  string  `json:"state"`
	// Hop ranks the shard in its lineage: 500000 for a root, one more for every split or roll.
	Hop              uint32     `json:"hop"`
	Generation       uint32     `json:"generation"`
	Epoch            uint64     `json:"epoch"`
	Owner            *string    `json:"owner"`
	Host             *string    `json:"host"`
	Position         *string    `json:"position"`
	EventTime        *time.Time `json:"event_time"` // of the last applied change
	ReadAt           *time.Time `json:"read_at"`
	WrittenAt        *time.Time `json:"written_at"` // the row, renewals of its lease included; by its owner's clock
	DoneAt           *time.Time `json:"done_at"`
	LagSeconds       *float64   `json:"lag_seconds"`
	LagEstimated     bool       `json:"lag_estimated"`
	HeadroomSeconds  *float64   `json:"headroom_seconds"`
	ChangesPerSecond *float64   `json:"changes_per_second"`
	Changes          uint64     `json:"changes"`  // applied
	Settling         uint64     `json:"settling"` // applied once, and to be asserted exactly under dual writes
	Old              bool       `json:"old"`      // it has an owner, and what is told was true two leases ago
	Why              *whyStatus `json:"why"`      // it does not get on; null if it does, or is done and its children are known
	Reason           *string    `json:"reason"`   // of a gap
}

// whyStatus says why a shard does not get on.
type whyStatus struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// lineage is the shards of one table as they hang together.
type lineage struct {
	now    time.Time
	lease  time.Duration
	state  checkpoint.TableState
	parent func(s *checkpoint.Shard) *checkpoint.Shard // nil if the ledger has none
	// unfollowed are the shards of the table's stream, by id, that ended a while ago and whose
	// children nobody has listed; open is when listings last showed a shard open.
	unfollowed map[string]bool
	open       map[string]time.Time
}

// listingGrace is how long it is nothing to tell that a shard ended and its children are not
// listed: the service's listings may be late by minutes.
const listingGrace = 5 * time.Minute

func lineageOf(in TableInput, named bool, now time.Time, lease time.Duration) *lineage {
	rows := make(map[string]*checkpoint.Shard, len(in.Shards))
	for i := range in.Shards {
		rows[in.Shards[i].Label+"/"+in.Shards[i].ID] = &in.Shards[i]
	}
	l := &lineage{now: now, lease: lease, state: in.State, parent: func(s *checkpoint.Shard) *checkpoint.Shard { return rows[s.Label+"/"+s.Parent] },
		unfollowed: map[string]bool{}, open: in.Listings.Open}
	for _, s := range unfollowedOf(in, named, now) {
		l.unfollowed[s.ID] = true
	}
	return l
}

// unfollowedOf are the shards that ended a while ago while nobody knows what follows them. A table
// that is set aside waits for something else, which is told; but a named one that was dropped is
// kept while its stream can be read, and nothing else tells what nobody found of it. Its last
// shards ended with it and have no children, as any listing of a while after that shows, or after
// the drop, however late they were read to their ends.
func unfollowedOf(in TableInput, named bool, now time.Time) []checkpoint.Shard {
	aside := in.State.Suspended.Reason
	dropped := named && aside == engine.GoneReason
	if aside != "" && !dropped {
		return nil
	}
	return slices.DeleteFunc(checkpoint.Unfollowed(in.State, in.Shards, in.Listings.At), func(s checkpoint.Shard) bool {
		if dropped {
			// Twice, or it would be told for moments of every dropped table: the listing that shows
			// it comes within a minute.
			return now.Sub(s.EndTime()) <= 2*listingGrace || in.Listings.At.Sub(s.EndTime()) >= listingGrace || in.Listings.At.Sub(in.State.Suspended.Since) >= 2*listingGrace
		}
		return now.Sub(s.EndTime()) <= listingGrace
	})
}

// over tells whether nothing is to be expected of a shard any more.
func (l *lineage) over(s *checkpoint.Shard) bool {
	return s.Label != l.state.Label || (s.Finished() || s.Ended()) && !l.unfollowed[s.ID]
}

// addShards judges the shards of a table, and the table by them.
func (m *Document) addShards(t *Table, in TableInput) {
	l := lineageOf(in, t.group == "", m.At, m.lease)
	rate, told, owned := 0.0, true, false
	var oldest, covered, reached time.Time
	estimated, unread := false, false
	t.drained = t.dropped()
	for i := range in.Shards {
		s := &in.Shards[i]
		shard := l.judge(s)
		t.Shards[shard.State]++
		if s.Label == in.State.Label && !s.Finished() {
			t.Settling += s.Settling.Changes
		}
		m.Shards = append(m.Shards, shard)
		if l.over(s) {
			continue
		}
		t.drained = false
		if l.unfollowed[s.ID] {
			t.unfollowed(s.EndTime())
		}
		if s.Owner != "" {
			m.Leases++
			m.worker(s.Owner, s.Heartbeat).Leases++
			owned = true
			if shard.ChangesPerSecond == nil {
				told = false
			} else {
				rate += *shard.ChangesPerSecond
			}
			if s.Trouble != (checkpoint.Trouble{}) && !l.silent(s) {
				t.troubled(s.Trouble, 1)
			}
		}
		switch at, empty, state := l.covered(s); {
		case state == coveredUnknown:
			unread = true
		case state == coveredHere:
			if covered.IsZero() || at.Before(covered) {
				covered, estimated = at, empty
			}
			if at = l.reached(s, at); reached.IsZero() || at.Before(reached) {
				reached = at
			}
		}
		if at := l.askedAt(s); !at.IsZero() && (oldest.IsZero() || at.Before(oldest)) {
			oldest = at
		}
		if shard.Why != nil && shard.Why.Code == WhyNobody {
			t.waiting++
		}
		if shard.Why != nil && shard.Why.Code == WhySilent {
			t.silent++
		}
	}
	if owned && told {
		t.ChangesPerSecond = &rate
	}
	old := m.At.Sub(oldest) > 2*m.lease
	if WaitsForListing(in.State) {
		oldest = begunAt(in.State, m.At)
		// There was nothing yet that could be old.
		t.unlisted, old = !oldest.IsZero() && m.At.Sub(oldest) > 2*m.lease, false
	}
	t.OldestReadAt = loads.KnownTime(oldest)
	t.Old = !oldest.IsZero() && old
	if covered.IsZero() {
		return
	}
	lag, headroom := lagAndHeadroom(covered, reached, m.At)
	// A shard of which nothing can be said may be further behind than all others: it must not hide
	// that one of them is about to lose changes.
	t.HeadroomSeconds, t.HeadroomAtMost = headroom, unread
	if !unread {
		t.LagSeconds, t.LagEstimated = lag, estimated
	}
}

// judge tells how one shard stands.
func (l *lineage) judge(s *checkpoint.Shard) Shard {
	out := Shard{Source: s.Source, Stream: s.Label, ID: s.ID, Parent: loads.Known(s.Parent), State: string(s.State), Hop: s.Hop, Generation: s.Generation,
		Epoch: s.Epoch, Owner: loads.Known(s.Owner), Host: loads.Known(s.Holder.Host), EventTime: loads.KnownTime(s.EventTime), ReadAt: loads.KnownTime(s.ReadAt),
		WrittenAt: loads.KnownTime(s.WrittenAt), DoneAt: loads.KnownTime(s.DoneAt), Changes: s.Applied, Settling: s.Settling.Changes, Reason: loads.Known(s.Reason), Why: l.why(s)}
	if !s.Position.IsZero() {
		out.Position = loads.Known(s.Position.String())
	}
	if l.over(s) {
		return out
	}
	if at, empty, state := l.covered(s); state == coveredHere {
		out.LagSeconds, out.HeadroomSeconds = lagAndHeadroom(at, l.reached(s, at), l.now)
		out.LagEstimated = empty
	}
	out.Old = s.Owner != "" && l.now.Sub(l.askedAt(s)) > 2*l.lease
	if s.Owner != "" && !out.Old && !s.ReadAt.IsZero() {
		rate := s.Rate
		out.ChangesPerSecond = &rate
	}
	return out
}

// silent tells whether the shard's owner has not written its row for longer than a lease lasts, by
// the owner's clock.
func (l *lineage) silent(s *checkpoint.Shard) bool {
	return s.Owner != "" && !s.WrittenAt.IsZero() && l.now.Sub(s.WrittenAt) > l.lease
}

// blocked is the parent that has to be finished first; nil if there is none. A trimmed parent is
// read on before its children.
func (l *lineage) blocked(s *checkpoint.Shard) *checkpoint.Shard {
	if p := l.parent(s); p != nil && !(p.Ended() || p.State == checkpoint.Gap && p.Loss != checkpoint.Trimmed) {
		return p
	}
	return nil
}

// why says why a shard does not get on.
func (l *lineage) why(s *checkpoint.Shard) *whyStatus {
	because := func(code, format string, args ...any) *whyStatus {
		return &whyStatus{code, fmt.Sprintf(format, args...)}
	}
	parent := l.blocked(s)
	switch {
	case l.unfollowed[s.ID] && s.Label == l.state.Label:
		return because(WhyChildren, "for its children to be listed, since it ended %s ago", backfill.FormatDuration(l.now.Sub(s.EndTime())))
	case s.State == checkpoint.Done:
		return nil
	case s.State == checkpoint.Gap && s.Reopenable(l.state):
		return because(whyGap, "%s; what is left of it will be read", s.Reason)
	case s.State == checkpoint.Gap:
		return because(whyGap, "%s", s.Reason)
	case s.Label != l.state.Label:
		return because(whyReplaced, "the table has another stream now")
	case l.state.Listed == 0:
		return because(whyListing, "the stream was not listed as a whole yet")
	case l.silent(s):
		return because(WhySilent, "%s is silent for %s, its lease of %s is over: the next worker that looks takes it", s.Owner,
			backfill.FormatDuration(l.now.Sub(s.WrittenAt)), config.FormatDuration(l.lease))
	case s.Owner != "" && s.Trouble != (checkpoint.Trouble{}):
		return because(WhyTrouble, "cannot %s (for %s): %s", s.Trouble.Step, backfill.FormatDuration(max(0, l.now.Sub(s.Trouble.Since))), s.Trouble.Cause)
	case s.Owner != "":
		return nil
	case parent != nil:
		return because(WhyParent, "for its parent %s, which is %s", parent.ID, standing(parent))
	}
	return because(WhyNobody, "for a worker: nobody has taken it")
}

// standing is a shard's state in the words of a sentence.
func standing(s *checkpoint.Shard) string {
	switch {
	case s.State == checkpoint.Gap:
		return "a gap that will be read on"
	case s.State == checkpoint.Reading && s.Owner == "":
		return "half read, and held by nobody"
	}
	return string(s.State)
}

// coverage says what is known of how far a shard is applied.
type coverage int

const (
	coveredUnknown   coverage = iota // it was never read, and nothing before it tells
	coveredHere                      // up to a time
	coveredElsewhere                 // by its parent, which is behind, and counts
)

// covered is the time up to which everything of a shard that is not over is applied, as far as can
// be told; empty if that is the time of an empty page, which proves nothing. Of children that
// nobody has listed it is what they will be held against when they are first read: they began when
// their parent was closed, which may be long before it was read to its end.
func (l *lineage) covered(s *checkpoint.Shard) (at time.Time, empty bool, state coverage) {
	parent := l.parent(s)
	switch {
	case l.unfollowed[s.ID]:
		return s.Covers(l.open[s.ID], l.state.Owed()), true, coveredHere
	case (s.CaughtUp || s.Settling.CaughtUp) && !s.ReadAt.IsZero():
		return s.ReadAt, true, coveredHere
	case !s.Settling.EventTime.IsZero():
		return s.Settling.EventTime, false, coveredHere
	case !s.EventTime.IsZero():
		return s.EventTime, false, coveredHere
	case !s.ReadAt.IsZero():
		return s.ReadAt, true, coveredHere
	case parent != nil && !parent.Finished() && !parent.Ended():
		return time.Time{}, false, coveredElsewhere
	case parent != nil && l.blocked(s) != nil:
		return time.Time{}, false, coveredUnknown // what is left of the trimmed parent comes first
	case parent != nil && !parent.EndTime().IsZero():
		return l.passedOn(parent), true, coveredHere
	}
	return time.Time{}, false, coveredUnknown
}

// reached is what a trim of a shard is judged by, and its headroom with it: the time of its
// position. Of one that was not read here yet, and of what follows one that ended, it is what
// covers it.
func (l *lineage) reached(s *checkpoint.Shard, covered time.Time) time.Time {
	if at := s.PositionTime(); !l.unfollowed[s.ID] && !s.ReadAt.IsZero() && !at.IsZero() {
		return at
	}
	return covered
}

// passedOn is up to when a finished shard covers its children. They began when it was closed, and
// if it was read to its end long after that, what they hold is as old. Where the two are about the
// same it is when it was read to its end: what a shard Covers is a bound, earlier by as much.
func (l *lineage) passedOn(s *checkpoint.Shard) time.Time {
	if at := s.Covers(l.open[s.ID], l.state.Owed()); !at.IsZero() && s.EndTime().Sub(at) > checkpoint.Slack+listingGrace {
		return at
	}
	return s.EndTime()
}

// WaitsForListing tells whether nothing of a table is read because its stream was never listed as a
// whole. One that is set aside waits for something else, which is told.
func WaitsForListing(s checkpoint.TableState) bool {
	return s.Listed == 0 && !s.StreamEnded && s.Suspended.Reason == ""
}

// begunAt is since when a table that was never listed could have been read. A generation is at
// least the number of minutes since 1970 at which it was begun (checkpoint.NextGeneration), so that
// it was begun by the end of that minute; the record's own time moves on with every beat of a
// keeper that cannot list.
func begunAt(s checkpoint.TableState, now time.Time) time.Time {
	if s.Generation == 0 {
		return s.Changed
	}
	if at := time.Unix((int64(s.Generation)+1)*60, 0); at.Before(now) {
		return at
	}
	return now
}

// askedAt is when a shard that could be read was last read, or else since when it could be; zero
// for one that has to wait. Nothing has been read of what follows a shard whose children nobody has
// listed since that one ended.
func (l *lineage) askedAt(s *checkpoint.Shard) time.Time {
	parent := l.parent(s)
	switch {
	case l.unfollowed[s.ID]:
		return s.EndTime()
	case s.Finished() || s.Ended() || l.blocked(s) != nil || l.state.Listed == 0:
		return time.Time{}
	case !s.ReadAt.IsZero():
		return s.ReadAt
	case parent != nil && !parent.EndTime().IsZero():
		return parent.EndTime()
	case s.Trouble != (checkpoint.Trouble{}):
		return s.Trouble.Since // renewals go on however the reads fare
	}
	return s.WrittenAt // when it was created or taken
}
