package checkpoint

import (
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// State is where a shard stands (I4).
type State string

// The four states of a shard.
const (
	Waiting State = "waiting" // for its parent, or for a worker
	Reading State = "reading"
	Done    State = "done" // read to its end and applied
	Gap     State = "gap"  // cannot be continued; Loss says why
)

// Loss says what became of a shard in state gap.
type Loss string

// The losses.
const (
	Trimmed  Loss = "trimmed"   // its position is beyond what the stream keeps; the rest can be read: see Reopen
	NotFound Loss = "not found" // the service does not know it any more
	Replaced Loss = "replaced"  // its stream was replaced
	Late     Loss = "late"      // it was listed when its ancestors and descendants were ranked without room for it, or its descendants were applied in an earlier generation
)

// Slack is what coverage gives up for clocks that differ and times that are floored.
const Slack = 10 * time.Minute

// Shard is the ledger's row of one shard.
type Shard struct {
	header
	Source    string `json:"source"` // source table
	StreamARN string `json:"stream_arn"`
	Label     string `json:"label"` // of the stream
	ID        string `json:"id"`
	Parent    string `json:"parent,omitempty"`
	State     State  `json:"state"`
	Hop       uint32 `json:"hop"`
	// Generation is that of changes read under the current epoch.
	Generation uint32 `json:"generation"`
	// Began is the generation in which the row was created; 0 if an old version of the program
	// created it.
	Began uint32 `json:"began,omitempty"`
	// Epoch rises with every change of owner. Owner is the worker that holds the lease; "" if none
	// does.
	Epoch uint64 `json:"epoch"`
	Owner string `json:"owner,omitempty"`
	// Position is the checkpoint: everything up to it is applied. EventTime is the latest event time among that, CellTime the
	// time cells were last stamped with.
	Position  cdc.SequenceNumber `json:"position,omitzero"`
	EventTime time.Time          `json:"event_time,omitzero"`
	CellTime  time.Time          `json:"cell_time,omitzero"`
	// CoveredTo is an event time: every change of the shard's ancestors up to then is applied, and
	// so is every change of its lineage. A seek at the horizon is judged by it (H75), because a
	// read at the horizon never fails, even if changes were trimmed. It is set when the shard is
	// first leased, from its parent; zero for a root.
	CoveredTo time.Time `json:"covered_to,omitzero"`
	// Inherited reports that the parent's row existed when the shard was first leased. The shard
	// continues that lineage, even after the row of its parent is removed.
	Inherited bool `json:"inherited,omitempty"`
	// FirstRead is the service's time of the first read of the shard that succeeded.
	FirstRead time.Time `json:"first_read,omitzero"`
	// AppliedTo is the service's time up to which empty pages prove that no change follows the
	// position; zero if none do. See PositionTime.
	AppliedTo time.Time `json:"applied_to,omitzero"`
	// ReadAt is when the last read was sent whose outcome this record covers, on the clock of who last
	// wrote the record; for people and for the lag. See ReadTime.
	ReadAt time.Time `json:"read_at,omitzero"`
	// CaughtUp reports that this read returned an empty page.
	CaughtUp bool `json:"caught_up,omitempty"`
	// DoneAt is when the shard was finished, on the service's clock, because a reopened shard and
	// children of a gap are covered up to it; zero if no answer had a time.
	DoneAt time.Time `json:"done_at,omitzero"`
	// EndedAt is when the last page of the shard was applied once under dual writes, on the
	// service's clock; zero before that, and without dual writes. Its children may be read then
	// (Ended), while the shard settles.
	EndedAt time.Time `json:"ended_at,omitzero"`
	// Settling are changes beyond the position that were applied once and will be written a second
	// time.
	Settling Settling `json:"settling,omitzero"`
	// Sighted are the facts of the shard that a cutover needs.
	Sighted Sighted `json:"sighted,omitzero"`
	// Reopened is how often a gap was declared and the shard reopened since a page of it was last applied.
	Reopened int `json:"reopened,omitempty"`
	// Dropping reports that all changes of the shard's lineage so far are from before the cut: the
	// table's (start: now), or its own.
	Dropping bool `json:"dropping,omitempty"`
	// Cut is the time of a gap in the shard's lineage, or of a parent that was never listed, less
	// Slack. The load after that gap covers earlier changes. Some of them may be trimmed without a
	// further gap, and the rest would outrank the load.
	Cut time.Time `json:"cut,omitzero"`
	// Applied is how many changes were applied since the shard's row was created, Rate how many a
	// second recently. Both are for people.
	Applied uint64  `json:"applied,omitempty"`
	Rate    float64 `json:"rate,omitempty"`
	// Apply is the mode in which the shard was last leased. NumberedFrom is how many of Applied
	// precede the first message of the generation in a mode that publishes; they have no number in
	// it.
	Apply        Mode   `json:"apply,omitempty"`
	NumberedFrom uint64 `json:"numbered_from,omitempty"`
	// Announced are the changes that may be published of a shard that has no position yet.
	Announced Announced `json:"announced,omitzero"`
	Heartbeat
	Loss   Loss   `json:"loss,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Noted reports that the process that raised the generation counted the loss of this gap.
	Noted bool `json:"noted,omitempty"`

	// Counter is the row's counter when it was read.
	Counter uint64 `json:"-"`
}

// Settling is what lies between a shard's checkpoint and what was read of it, while the application writes the target too: it is applied
// timestamped, and still to be asserted exactly.
type Settling struct {
	Changes uint64 `json:"changes,omitempty"`
	// EventTime, CellTime and CaughtUp are as those of the shard, for what was read.
	EventTime time.Time `json:"event_time,omitzero"`
	CellTime  time.Time `json:"cell_time,omitzero"`
	CaughtUp  bool      `json:"caught_up,omitempty"`
}

// ReadTime is ReadAt on the service's clock; zero before the first read.
func (s *Shard) ReadTime() time.Time {
	if s.ReadAt.IsZero() {
		return s.ReadAt
	}
	return s.ReadAt.Add(-s.ahead())
}

// ahead is how far the clock of who last wrote the record is ahead of the service's.
func (s *Shard) ahead() time.Duration { return time.Duration(s.ClockOffset * float64(time.Second)) }

// beat leaves another heartbeat. ReadAt follows its clock: who writes the record now may have another
// one than who read, or one that has jumped since.
func (s *Shard) beat(h Heartbeat) {
	at := s.ReadTime()
	s.Heartbeat = h
	if !at.IsZero() {
		s.ReadAt = at.Add(s.ahead())
	}
}

func (s *Shard) key(l *Ledger) string { return l.shardPrefix(s.Source) + s.Label + "/" + s.ID }

// PositionTime is the service's time up to which every change of the shard is applied: that of its last change or of the empty pages after it. What
// is trimmed behind the position is judged by it, and headroom is what a stream keeps less its age. A shard that has had no change goes on from
// what it inherited or first saw.
func (s *Shard) PositionTime() time.Time {
	switch {
	case !s.Position.IsZero():
		return later(s.EventTime, s.AppliedTo)
	case !s.CoveredTo.IsZero():
		return later(s.CoveredTo, s.AppliedTo)
	}
	return later(s.FirstRead, s.AppliedTo)
}

// Reached is the PositionTime of the shard once it has got as far as p.
func (s Shard) Reached(p Progress) time.Time {
	s.Position, s.EventTime, s.AppliedTo = p.Position.After, p.EventTime, p.AppliedTo
	if s.FirstRead.IsZero() {
		s.FirstRead = p.FirstRead
	}
	return s.PositionTime()
}

// Finished reports whether nobody reads the shard any more, as it stands.
func (s *Shard) Finished() bool { return s.State == Done || s.State == Gap }

// Ended tells whether the shard was read to its end, and everything in it applied, be it for the first of two times: then its children may be
// read. A shard that is done has settled as well, which its row's removal and the end of a run wait for.
func (s *Shard) Ended() bool {
	return s.State == Done || s.State == Reading && !s.EndedAt.IsZero()
}

// EndTime is when that was; zero if no answer had a time.
func (s *Shard) EndTime() time.Time {
	if s.EndedAt.IsZero() {
		return s.DoneAt
	}
	return s.EndedAt
}

// AwaitsChildren tells whether a shard's children, if none is known, are likely to be listed soon: it was read to its end less than a day ago. After
// that they may be gone for good, if nobody listed them for as long as they lived: then the shards after them told of a gap, or will when the
// stream can be listed again (Unfollowed). Complete listings bring late ones at any time.
func (s *Shard) AwaitsChildren(now time.Time) bool {
	return s.Ended() && (s.EndTime().IsZero() || now.Sub(s.EndTime()) < cdc.Retention)
}

// Unfollowed are the shards of the table's stream that were read to their ends while nobody knows what follows them: no child has a row, and the stream
// did not end. That is so for moments where a listing comes late, and for as long as nobody can list. A listing of a day after a shard's end settles
// it: its children were in one, or the shards after them have told of a gap. Listed is when the last whole one was of (Listings); zero if that is not
// known.
func Unfollowed(table TableState, shards []Shard, listed time.Time) []Shard {
	if table.StreamEnded {
		return nil
	}
	parents := map[string]bool{}
	for _, s := range shards {
		if s.Label == table.Label {
			parents[s.Parent] = true
		}
	}
	var out []Shard
	for _, s := range shards {
		if s.Ended() && s.Label == table.Label && !parents[s.ID] && (s.EndTime().IsZero() || listed.Before(s.EndTime().Add(cdc.Retention))) {
			out = append(out, s)
		}
	}
	return out
}

// settled tells whether nothing of the shard will ever be applied for the first time any more, and what was lost of it is declared: one that was trimmed is finished, but
// will be reopened; and what follows a gap is not read in the generation that the gap ends.
func (s *Shard) settled(table TableState) bool {
	return s.Ended() || s.State == Gap && s.Loss != Trimmed && !s.Undeclared(table)
}

// Covers is an event time up to which everything of a finished shard's lineage is applied, and so a bound for what its children
// may begin with: its last event, or the moment at which a listing last showed it open (zero if none did), both less Slack;
// else what it inherited. That it gave a page with a next iterator shows nothing: a closed shard that is read late does so
// on every page but its last. If it is a gap, everything up to the gap is the business of the load that follows. Owed is the table's: where
// nothing is loaded, a root's first read makes up for nothing that was trimmed before it.
func (s *Shard) Covers(open, owed time.Time) time.Time {
	if s.State == Gap {
		return s.DoneAt
	}
	covers := s.CoveredTo
	for _, t := range []time.Time{s.EventTime, s.Settling.EventTime, open} {
		if !t.IsZero() {
			covers = later(covers, t.Add(-Slack))
		}
	}
	if !covers.IsZero() {
		return covers
	}
	// A root that was closed and empty when the stream was first read.
	if !owed.IsZero() && owed.Before(s.FirstRead) {
		return owed
	}
	return s.FirstRead
}

// Overtaken tells whether a shard that is listed only now must not be read: something that descends
// from it may have been applied in an earlier generation than the given one, in which the older
// changes of the shard would outrank it. Parents has the parent of every shard, by id.
func Overtaken(id string, rows []Shard, parents map[string]string, generation uint32) bool {
	return slices.ContainsFunc(rows, func(s Shard) bool {
		return s.State != Waiting && s.Loss != Late && s.Began < generation && descends(s.Parent, id, parents)
	})
}

// cutAt lets the shard drop what came before a gap that was found at a time.
func (s *Shard) cutAt(found time.Time) {
	if cut := found.Add(-Slack); !found.IsZero() && cut.After(s.Cut) {
		s.Dropping, s.Cut = true, cut
	}
}

// OrphansCut is the cut of shards whose parents were never listed and whose gap was found at a time; rows are those of all other shards.
// It is zero while one of these is still applied: that may be their ancestor, and all they held must outrank it.
func OrphansCut(rows map[string]Shard, table TableState, found time.Time) time.Time {
	for _, s := range rows {
		if !s.settled(table) {
			return time.Time{}
		}
	}
	if found.IsZero() {
		return found
	}
	return found.Add(-Slack)
}

// DescendantsCut is the latest cut of what descends from a shard that is listed late: what it holds is older than what that dropped.
func DescendantsCut(id string, rows map[string]Shard, parents map[string]string) (cut time.Time) {
	for _, s := range rows {
		if !s.Cut.IsZero() && descends(s.Parent, id, parents) {
			cut = later(cut, s.Cut)
		}
	}
	return cut
}

// descends reports whether a shard is at or below another one.
func descends(at, from string, parents map[string]string) bool {
	for range len(parents) { // a lineage has no circles; damaged rows might
		if at == from || at == "" {
			break
		}
		at = parents[at]
	}
	return at == from
}

// Outrun are the unfinished shards of the table's stream from which something descends that was applied in an earlier generation: the
// descendant was begun before its lineage was known, and a raise came since. What is left of the shard is older than that, and would
// outrank it. Those that have ended settle.
func Outrun(shards []Shard, table TableState) []Shard {
	rows, ahead := map[string]*Shard{}, map[string]bool{}
	for i := range shards {
		if shards[i].Label == table.Label {
			rows[shards[i].ID] = &shards[i]
		}
	}
	for _, s := range shards {
		if s.Label != table.Label || s.State == Waiting || s.Loss == Late || s.Began >= table.Generation {
			continue
		}
		for at := rows[s.Parent]; at != nil && !ahead[at.ID]; at = rows[at.Parent] {
			ahead[at.ID] = true
		}
	}
	var out []Shard
	for _, s := range shards {
		if s.Label == table.Label && ahead[s.ID] && !s.Finished() && !s.Ended() {
			out = append(out, s)
		}
	}
	return out
}

// Undeclared reports whether the shard is a gap for which no generation was raised yet, or which was
// not seen by whoever raised it: then the table's record does not say since when changes are lost.
// What was lost before the base was repaired with it, and without a base all is copied anyway.
func (s *Shard) Undeclared(table TableState) bool {
	counted := s.Generation < table.Generation && (s.Noted || s.Generation < table.Base || table.Base == 0)
	return s.State == Gap && s.Label == table.Label && !counted
}

// Reopenable reports whether the gap is declared and what is left of the shard can be read.
func (s *Shard) Reopenable(table TableState) bool {
	return s.State == Gap && s.Loss == Trimmed && s.Label == table.Label && !s.Undeclared(table)
}
