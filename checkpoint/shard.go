package checkpoint

import (
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// State is the state of a shard (I4).
type State string

// The four states of a shard.
const (
	Waiting State = "waiting" // waits for its parent, or for a worker
	Reading State = "reading"
	Done    State = "done" // read to its end and applied
	Gap     State = "gap"  // cannot be continued; Loss explains why
)

// Loss explains why a shard in state gap cannot be continued.
type Loss string

// The losses.
const (
	Trimmed  Loss = "trimmed"   // the stream no longer keeps the shard's position; later changes can be read (Reopen)
	NotFound Loss = "not found" // the service no longer knows the shard
	Replaced Loss = "replaced"  // the shard's stream was replaced; if it is followed again, later changes can be read (Reopen)
	Late     Loss = "late"      // it was first listed when no rank was left between its ancestors and descendants, or its descendants were applied in an earlier generation
)

// Slack is subtracted from coverage, because clocks differ and times are rounded down.
const Slack = 10 * time.Minute

// Shard is the ledger's row of one shard.
type Shard struct {
	header
	Source    string `json:"source"` // source table
	StreamARN string `json:"stream_arn"`
	Label     string `json:"label"` // the stream's label
	ID        string `json:"id"`
	Parent    string `json:"parent,omitempty"` // id of the parent shard
	State     State  `json:"state"`            // waiting, reading, done or gap
	Hop       uint32 `json:"hop"`              // rank in the lineage
	// Generation is the generation of changes that are read under the current epoch.
	Generation uint32 `json:"generation"`
	// Began is the generation in which the row was created; 0 if an old version of the program
	// created it.
	Began uint32 `json:"began,omitempty"`
	// Epoch rises with every change of owner. Owner is the worker that holds the lease; "" if none
	// does.
	Epoch uint64 `json:"epoch"`
	Owner string `json:"owner,omitempty"`
	// Position is the checkpoint: every change up to it is applied. EventTime is the latest event
	// time of these changes, and CellTime the latest timestamp of their cells.
	Position  cdc.SequenceNumber `json:"position,omitzero"`
	EventTime time.Time          `json:"event_time,omitzero"`
	CellTime  time.Time          `json:"cell_time,omitzero"`
	// CoveredTo is an event time up to which every change of the shard's lineage is applied. It
	// shows whether a read from the horizon may have missed changes (H75), because such a read
	// never fails, even if changes were trimmed. It is set from the parent when the shard is first
	// leased; zero for a root.
	CoveredTo time.Time `json:"covered_to,omitzero"`
	// Inherited reports that the parent's row existed when the shard was first leased. The shard
	// continues its parent's lineage, even after the parent's row is removed.
	Inherited bool `json:"inherited,omitempty"`
	// FirstRead is the service's time of the first read of the shard that succeeded.
	FirstRead time.Time `json:"first_read,omitzero"`
	// AppliedTo is the service's time up to which empty pages prove that no change follows the
	// position; zero if no page proves it.
	AppliedTo time.Time `json:"applied_to,omitzero"`
	// ReadAt is the time at which the last read in this record was sent, on the clock of the
	// record's last writer. It is used for display and for the lag.
	ReadAt time.Time `json:"read_at,omitzero"`
	// CaughtUp reports that the read at ReadAt returned an empty page.
	CaughtUp bool `json:"caught_up,omitempty"`
	// DoneAt is when the shard became done or a gap, on the service's clock. Reopened shards and
	// children of a gap count as covered up to that time. It is zero if no response had a time.
	DoneAt time.Time `json:"done_at,omitzero"`
	// EndedAt is when the last page of the shard was first applied under dual writes, on the
	// service's clock. It is zero before that, and without dual writes. From EndedAt on, the
	// shard's children may be read while the shard itself settles.
	EndedAt time.Time `json:"ended_at,omitzero"`
	// Complete reports that all children of a done shard have rows. A listing that began
	// cutover.listing_bound after the shard's end was found has added these rows.
	Complete bool `json:"complete,omitempty"`
	// Settling counts the changes after the position that were applied once and must be written a
	// second time.
	Settling Settling `json:"settling,omitzero"`
	// Sighted holds facts about the shard that a cutover needs.
	Sighted Sighted `json:"sighted,omitzero"`
	// Rechecked says up to which change the rows of the shard's changes were compared again.
	Rechecked Rechecked `json:"rechecked,omitzero"`
	// Reopened is how often the shard was reopened after a gap. It is reset when a page of the
	// shard is applied.
	Reopened int `json:"reopened,omitempty"`
	// Dropping reports that all changes of the shard's lineage so far are earlier than the cut. The
	// cut is the table's (start: now) or the shard's own.
	Dropping bool `json:"dropping,omitempty"`
	// Cut is a time. Changes before it are dropped, because a load covers them. If they were
	// applied, they would outrank the rows of that load. Cut lies 10 minutes (Slack) before the
	// time at which a gap in the shard's lineage, or an unlisted parent, was found.
	Cut time.Time `json:"cut,omitzero"`
	// Applied is how many changes were applied since the shard's row was created.
	Applied uint64 `json:"applied,omitempty"`
	Shown
	// Apply is the mode in which the shard was last leased. In a mode that publishes, NumberedFrom
	// is how many of the Applied changes precede the first message of the generation. Those
	// preceding changes have no number in the generation.
	Apply        Mode   `json:"apply,omitempty"`
	NumberedFrom uint64 `json:"numbered_from,omitempty"`
	// Announced are the changes that may be published while the shard has no position yet.
	Announced Announced `json:"announced,omitzero"`
	Heartbeat
	Loss   Loss   `json:"loss,omitempty"` // why the shard is a gap: trimmed, not found, replaced or late
	Reason string `json:"reason,omitempty"`
	// Noted reports that the process that raised the generation counted the loss of this gap.
	Noted bool `json:"noted,omitempty"`

	// Counter is the row's counter when it was read.
	Counter uint64 `json:"-"`
}

// Shown holds figures of a shard's current reader that are only for display. They are zero if no
// worker reads the shard.
type Shown struct {
	Rate float64 `json:"rate,omitempty"` // recent number of applied changes per second
}

// Settling describes the changes between a shard's checkpoint and its last read. It is used only if
// the application also writes the target. The changes were applied as timestamped writes, and must
// still be written a second time, exactly.
type Settling struct {
	Changes uint64 `json:"changes,omitempty"`
	// EventTime, CellTime and CaughtUp mean the same as the shard's fields, but for the changes
	// that were read.
	EventTime time.Time `json:"event_time,omitzero"`
	CellTime  time.Time `json:"cell_time,omitzero"`
	CaughtUp  bool      `json:"caught_up,omitempty"`
}

// ReadTime returns ReadAt on the service's clock; zero before the first read.
func (s *Shard) ReadTime() time.Time {
	if s.ReadAt.IsZero() {
		return s.ReadAt
	}
	return s.ReadAt.Add(-s.ahead())
}

// ahead returns how far the clock of the record's last writer is ahead of the service's clock.
func (s *Shard) ahead() time.Duration { return time.Duration(s.ClockOffset * float64(time.Second)) }

// beat replaces the heartbeat and converts ReadAt to the new writer's clock. That clock may differ
// from the previous writer's, or may have jumped.
func (s *Shard) beat(h Heartbeat) {
	at := s.ReadTime()
	s.Heartbeat = h
	if !at.IsZero() {
		s.ReadAt = at.Add(s.ahead())
	}
}

func (s *Shard) key(l *Ledger) string { return l.shardPrefix(s.Source) + s.Label + "/" + s.ID }

// PositionTime returns the service's time up to which every change of the shard is applied: the
// time of its last change or of the empty pages after it. It shows whether changes after the
// position were trimmed. The headroom is the stream's retention less the age of this time. For a
// shard without changes it is the time that the shard inherited, or the time of its first read.
func (s *Shard) PositionTime() time.Time {
	switch {
	case !s.Position.IsZero():
		return later(s.EventTime, s.AppliedTo)
	case !s.CoveredTo.IsZero():
		return later(s.CoveredTo, s.AppliedTo)
	}
	return later(s.FirstRead, s.AppliedTo)
}

// Reached returns the PositionTime that the shard will have once it has reached p.
func (s Shard) Reached(p Progress) time.Time {
	s.Position, s.EventTime, s.AppliedTo = p.Position.After, p.EventTime, p.AppliedTo
	if s.FirstRead.IsZero() {
		s.FirstRead = p.FirstRead
	}
	return s.PositionTime()
}

// Finished reports whether no worker reads the shard in its current state.
func (s *Shard) Finished() bool { return s.State == Done || s.State == Gap }

// Ended reports whether the shard was read to its end and all its changes were applied at least
// once. Then its children may be read. A shard that is done has also settled. The removal of the
// shard's row and the end of a run wait until the shard has settled.
func (s *Shard) Ended() bool {
	return s.State == Done || s.State == Reading && !s.EndedAt.IsZero()
}

// EndTime returns when the shard ended; zero if no response had a time.
func (s *Shard) EndTime() time.Time {
	if s.EndedAt.IsZero() {
		return s.DoneAt
	}
	return s.EndedAt
}

// AwaitsChildren reports whether children are likely to be listed soon for a shard without known
// children. They are if the shard was read to its end less than a day ago. After a day its children
// may be gone, if no listing was made while they existed. In that case the shards after these
// children cause a gap, at the latest when the stream can be listed again (Unfollowed). Complete
// listings may add late children at any time.
func (s *Shard) AwaitsChildren(now time.Time) bool {
	return s.Ended() && (s.EndTime().IsZero() || now.Sub(s.EndTime()) < cdc.Retention)
}

// Incomplete reports whether children of the shard may exist that have no row yet. Such children
// may exist if the shard was read to its end and no listing has been made since. A shard that is
// still read has no children.
func (s *Shard) Incomplete() bool { return s.Ended() && !s.Complete }

// Unfollowed returns the shards of the table's stream that were read to their ends but have no
// known children: no child has a row, and the stream did not end. A shard stays unfollowed for a
// short time while a listing is late, and longer if the stream cannot be listed. A listing made a
// day after a shard's end settles the question. Either the listing has shown the children, or the
// shards after them have caused a gap. The argument `listed` is the time of the last complete
// listing (Listings); zero if unknown.
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

// settled reports whether the shard has no change left to apply for the first time, and its losses
// are declared. A trimmed shard is finished, but it will be reopened. Children of a gap are not
// read in the generation that the gap ends.
func (s *Shard) settled(table TableState) bool {
	return s.Ended() || s.State == Gap && !s.Reopens(table.Label) && !s.Undeclared(table)
}

// Reopens reports whether the shard can be read again after its gap was declared. The argument is
// the label of the followed stream. A replaced stream is followed again if a migration returns to
// the region that it had left.
func (s *Shard) Reopens(label string) bool {
	return s.State == Gap && s.Label == label && (s.Loss == Trimmed || s.Loss == Replaced)
}

// Covers returns an event time up to which every change of a finished shard's lineage is applied.
// The changes of the shard's children are later. Covers uses three times: the time that the shard
// inherited, the time of its last event, and `open`. Slack is subtracted from the last two. The
// latest of these times counts. The argument `open` is the time at which a listing last showed the
// shard as open, or zero. If no such time is known, Covers uses the first read of the shard. A page
// with a next iterator does not prove that the shard is open. A closed shard that is read late
// returns such an iterator on every page but its last. For a gap, Covers returns the time of the
// gap, because the load that follows covers earlier changes. The argument `owed` must be the
// table's Owed. In a table without a load, a root's first read does not cover changes that were
// trimmed before it.
func (s *Shard) Covers(open, owed time.Time) time.Time {
	if s.State == Gap {
		return s.DoneAt
	}
	covers := s.CoveredTo
	if applied := !s.Position.IsZero() && !s.EventTime.IsZero(); applied && s.Cut.IsZero() && s.EventTime.Before(covers) {
		// The shard was found after a gap, and has applied a change from before the gap. A later change,
		// in a child, may have moved the item to another row. If that change is trimmed, the load does not
		// correct the row that this shard wrote.
		covers = time.Time{}
	}
	for _, t := range []time.Time{s.EventTime, s.Settling.EventTime, open} {
		if !t.IsZero() {
			covers = later(covers, t.Add(-Slack))
		}
	}
	if !covers.IsZero() {
		return covers
	}
	// The shard is a root that was closed and empty when the stream was first read.
	if !owed.IsZero() && owed.Before(s.FirstRead) {
		return owed
	}
	return s.FirstRead
}

// Overtaken reports whether a shard that is first listed now must not be read. That is so if
// changes of a descendant may have been applied in an earlier generation than the given one. In the
// given generation, the shard's older changes would outrank them. The map `parents` has the id of
// every shard's parent.
func Overtaken(id string, rows []Shard, parents map[string]string, generation uint32) bool {
	return slices.ContainsFunc(rows, func(s Shard) bool {
		return s.State != Waiting && s.Loss != Late && s.Began < generation && descends(s.Parent, id, parents)
	})
}

// cutAt makes the shard drop changes that are earlier than a gap found at the given time.
func (s *Shard) cutAt(found time.Time) {
	if cut := found.Add(-Slack); !found.IsZero() && cut.After(s.Cut) {
		s.Dropping, s.Cut = true, cut
	}
}

// OrphansCut returns the cut of shards whose parents were never listed and whose gap was found at
// the given time. Rows are the rows of all other shards. The cut is zero while one of these shards
// is still being applied. That shard may be an ancestor, and every change of the orphans must
// outrank it.
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

// DescendantsCut is for a shard that is listed late. It returns the latest cut among the shard's
// descendants: the time before which they dropped changes. The shard's changes are older than
// those.
func DescendantsCut(id string, rows map[string]Shard, parents map[string]string) (cut time.Time) {
	for _, s := range rows {
		if !s.Cut.IsZero() && descends(s.Parent, id, parents) {
			cut = later(cut, s.Cut)
		}
	}
	return cut
}

// descends reports whether the shard `at` is the shard `from` or one of its descendants.
func descends(at, from string, parents map[string]string) bool {
	for range len(parents) { // a lineage has no cycles; damaged rows might
		if at == from || at == "" {
			break
		}
		at = parents[at]
	}
	return at == from
}

// Outrun returns the unfinished shards of the table's stream that have a descendant which was
// applied in an earlier generation. A worker began that descendant before its lineage was known,
// and the generation was raised since then. The changes left in the shard are older than the
// descendant's changes but would outrank them. Outrun leaves out shards that have ended, because
// these only settle. A descendant of a stream that is followed again does not count while it
// waits to be reopened. It waited for its parent before, or both drop the changes from before the
// stream was left (Cut).
func Outrun(shards []Shard, table TableState) []Shard {
	rows, ahead := map[string]*Shard{}, map[string]bool{}
	for i := range shards {
		if shards[i].Label == table.Label {
			rows[shards[i].ID] = &shards[i]
		}
	}
	for _, s := range shards {
		if s.Label != table.Label || s.State == Waiting || s.Loss == Late || s.Loss == Replaced || s.Began >= table.Generation {
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

// Undeclared reports whether the table's record does not say since when the shard's changes are
// lost. Either no generation was raised yet for the gap, or the process that raised it did not see
// the gap. Losses before the base generation do not count, because the base's load repaired them.
// Without a base, the load copies everything.
func (s *Shard) Undeclared(table TableState) bool {
	counted := s.Generation < table.Generation && (s.Noted || s.Generation < table.Base || table.Base == 0)
	return s.State == Gap && s.Label == table.Label && !counted
}

// Reopenable reports whether the gap is declared and the rest of the shard can be read.
func (s *Shard) Reopenable(table TableState) bool {
	return s.Reopens(table.Label) && !s.Undeclared(table)
}
