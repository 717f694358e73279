package checkpoint

import (
	"context"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// keptGaps bounds how many gaps a table's record lists. GapCount counts all of them.
const keptGaps = 50

// keptGenerations bounds how many generations of older gaps the record keeps.
const keptGenerations = 1000

// GapKind is what broke continuity. The repair depends on that. Windows of an incremental export
// repair only gaps of the stream (H107). Every other kind needs a copy.
type GapKind string

// The kinds.
const (
	KindStream         GapKind = "stream"             // changes were trimmed, or never recorded
	KindTargetLost     GapKind = "target_lost"        // the target was recreated or restored
	KindLedgerLost     GapKind = "ledger_lost"        // the ledger was recreated, restored or renamed
	KindMappingChanged GapKind = "mapping_changed"    // rows of the former mapping must be written again
	KindCreatedAnew    GapKind = "table_created_anew" // the source table was recreated with the same name
	KindSourceMoved    GapKind = "source_moved"       // the table is read in another region
	KindAskedFor       GapKind = "asked_for"          // an operator requested another load
	KindRolledBack     GapKind = "rolled_back"        // the application wrote the target, and was moved back to the source
	KindSweep          GapKind = "sweep"              // a sweep left rows that replicator wrote: no mapping explains them, or the target refuses their removal
	KindUnknown        GapKind = "unknown"            // declared by a version without kinds
)

// widen returns the kind of a gap that combines losses of two kinds. Only a loss of the stream can
// be repaired without a copy.
func (k GapKind) widen(other GapKind) GapKind {
	if k == "" || k == KindStream && other != "" || other == KindMappingChanged || other == KindRolledBack && k != KindMappingChanged {
		return other // a changed mapping needs a sweep under both mappings, and a rollback always gets a load
	}
	return k
}

// DeclaredGap is a break of continuity: lost changes of the stream, or lost rows of the target.
type DeclaredGap struct {
	At         time.Time `json:"at"`
	Kind       GapKind   `json:"kind,omitempty"`
	Shard      string    `json:"shard,omitempty"`
	Reason     string    `json:"reason"`
	Generation uint32    `json:"generation"` // the generation that the gap ended
	// LostFrom is an event time before which the stream lost no change; zero if unknown, and for
	// kinds other than stream.
	LostFrom time.Time `json:"lost_from,omitzero"`
	// Shards is the number of shards that were gaps when this gap was declared. It is 0 for the
	// loss of a whole stream, for example.
	Shards int `json:"shards,omitempty"`
}

// noteGap adds the gap once. It also marks the table as in need of a load, unless a later
// generation was already loaded and swept.
func noteGap(s *TableState, gap DeclaredGap) {
	if gap.Kind == "" || gap.Kind == KindStream && gap.LostFrom.IsZero() {
		gap.Kind = KindUnknown // without LostFrom no window provably begins early enough
	}
	if gap.Generation >= s.Base {
		s.suspend(gap)
	}
	known := func(g DeclaredGap) bool {
		return g.Shard == gap.Shard && g.Reason == gap.Reason && g.Generation == gap.Generation
	}
	if slices.ContainsFunc(s.Gaps, known) {
		return
	}
	s.Gaps = append(s.Gaps, gap)
	s.GapCount += max(1, gap.Shards)
	if extra := len(s.Gaps) - keptGaps; extra > 0 {
		s.forgetGaps(extra)
		s.Gaps = slices.Delete(s.Gaps, 0, extra)
	}
}

// forgetGaps adds to Earlier the generations that the oldest n gaps ended. The caller then removes
// these gaps.
func (s *TableState) forgetGaps(n int) {
	s.Inherited = s.inherited()
	s.Earlier = slices.Clone(s.Earlier)
	for _, g := range s.Gaps[:n] {
		if !slices.Contains(s.Earlier, g.Generation) {
			s.Earlier = append(s.Earlier, g.Generation)
		}
	}
	if extra := len(s.Earlier) - keptGenerations; extra > 0 {
		s.Earlier = slices.Delete(s.Earlier, 0, extra)
	}
}

// HadGeneration reports whether this ledger used a generation, or took over rows that a lost ledger
// wrote in it. A row of any other generation belongs to another migration.
func (s TableState) HadGeneration(generation uint32) bool {
	return generation == s.Generation || generation == s.Base || generation < s.inherited() || slices.Contains(s.Earlier, generation) ||
		slices.ContainsFunc(s.Gaps, func(g DeclaredGap) bool { return g.Generation == generation })
}

// inherited returns the first generation that began after the last loss of a ledger; 0 if no ledger
// was lost. Rows of lower generations were written under lost ledgers or under this ledger.
func (s TableState) inherited() uint32 {
	above := s.Inherited
	for i, lost := range s.Gaps {
		if lost.Kind != KindLedgerLost {
			continue
		}
		next := s.Generation
		for _, later := range s.Gaps[i+1:] {
			if later.Generation > lost.Generation {
				next = min(next, later.Generation)
			}
		}
		above = max(above, next)
	}
	return above
}

// suspend marks the table as in need of a load. An incomplete load of windows may have removed rows
// that one of its later windows would write again. So the next load must begin at least as early as
// that load.
func (s *TableState) suspend(gap DeclaredGap) {
	s.NeedsLoad, s.Reason = true, gap.Reason
	s.Kind = s.Kind.widen(gap.Kind)
	if gap.LostFrom.IsZero() {
		return
	}
	s.LostFrom = earlier(s.LostFrom, gap.LostFrom)
	if begins := s.Load.begins(); s.Load.Generation > s.Base && !begins.IsZero() {
		s.LostFrom = earlier(s.LostFrom, begins.Add(windowMargin))
	}
}

// earlier returns the earlier of two times, ignoring zero times.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// count makes a gap of the stream include the losses of all shards that are gaps now. These include
// shards whose changes were trimmed before any worker noticed. Otherwise their gaps would be found
// one after the other, and each would begin a generation. It marks the rows of these shards. A
// shard that becomes a gap later has no mark, so it is not reopened before the record includes its
// loss. It reports whether an earlier raise already counted the named shard.
func (l *Ledger) count(ctx context.Context, source string, gap *DeclaredGap) (already bool, err error) {
	for range tries {
		table, _, err := l.Table(ctx, source)
		if err != nil {
			return false, err
		}
		shards, err := l.Shards(ctx, source)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(shards, func(s Shard) bool { return s.ID == gap.Shard && s.counted(table, gap.Generation) }) {
			return true, nil
		}
		changed, err := l.giveUpOverdue(ctx, table, shards, gap.Shard)
		if err != nil {
			return false, err
		}
		if changed {
			continue
		}
		if err := l.lostFrom(ctx, table, shards, gap); err != nil {
			return false, err
		}
		noted, err := l.note(ctx, table, shards)
		if err != nil {
			return false, err
		}
		if noted {
			return false, nil
		}
	}
	return false, ErrConflict
}

// counted reports whether the table's record includes the gap that the shard had in a generation.
// Either the shard's row shows this, or the shard was reopened since that gap.
func (s *Shard) counted(table TableState, generation uint32) bool {
	noted := s.State == Gap && s.Noted && s.Generation < table.Generation
	return s.Label == table.Label && (noted || s.Generation > generation)
}

// trimmedUnread is the reason of a gap whose shard no worker has read since the stream dropped its
// changes.
const trimmedUnread = "the changes after its checkpoint are older than the stream's retention"

// giveUpOverdue makes gaps of the shards whose next changes are older than the stream's retention.
// It does nothing for the gap of a whole stream, which includes all unfinished shards anyway. It
// returns true if it tried to change a row. The caller must then read the rows again.
func (l *Ledger) giveUpOverdue(ctx context.Context, table TableState, shards []Shard, of string) (bool, error) {
	now, changed := l.ServiceTime(ctx), false
	if of == "" || now.IsZero() {
		return false, nil
	}
	for _, s := range shards {
		if s.Label != table.Label || s.Finished() || s.Position.IsZero() || now.Sub(s.PositionTime()) <= cdc.Retention {
			continue
		}
		if _, err := l.giveUp(ctx, s, Trimmed, trimmedUnread); err != nil {
			return false, err
		}
		changed = true
	}
	return changed, nil
}

// note marks the rows of all undeclared gaps. It returns false if one of the rows has changed since
// it was read.
func (l *Ledger) note(ctx context.Context, table TableState, shards []Shard) (bool, error) {
	for _, s := range shards {
		if !s.Undeclared(table) || s.Noted {
			continue
		}
		s.Noted = true
		s.Epoch++ // the worker that declared the gap can no longer write the row (I6)
		if done, err := l.swap(ctx, l.store, s.key(l), s.Counter, l.stamp(&s.header, &s)); err != nil || !done {
			return false, err
		}
	}
	return true, nil
}

// lostFrom sets a gap's number of shards and the time from which changes may be lost. It keeps the
// gap's own time if that time is earlier.
func (l *Ledger) lostFrom(ctx context.Context, table TableState, shards []Shard, gap *DeclaredGap) error {
	listed, err := l.Listings(ctx, table.Source, table.Label)
	if err != nil {
		return err
	}
	var merged []Applied
	if table.Apply == Topic {
		if merged, err = l.Merged(ctx, table.Source); err != nil {
			return err
		}
	}
	for _, s := range shards {
		if s.Undeclared(table) {
			gap.Shards++
		}
	}
	from := LostFrom(table, shards, listed, merged, gap.Shard)
	switch known := gap.LostFrom; {
	case known.IsZero():
		gap.LostFrom = from
	case gap.Shards > 0:
		if gap.LostFrom = earlier(known, from); from.IsZero() {
			gap.LostFrom = from
		}
	}
	return nil
}

// LostFrom returns an event time before which a gap of the named shard lost no change. It is the
// earliest such time of the named shard and of every other shard that is a gap now. Shards that
// were read to their end and have unknown children count too, because these children may be lost.
// If the gap names no shard, or a shard without a row, it may have begun in any unfinished shard.
// With a topic, the new generation drops published messages that are not known to be applied. So
// these messages count too. The result is zero if one of the shards' times is unknown.
func LostFrom(table TableState, shards []Shard, listed Listings, merged []Applied, shard string) time.Time {
	rows := map[string]*Shard{}
	for i := range shards {
		if shards[i].Label == table.Label {
			rows[shards[i].ID] = &shards[i]
		}
	}
	lost := Unfollowed(table, shards, listed.At)
	if s := rows[shard]; s != nil {
		lost = append(lost, *s)
	} else {
		for _, s := range rows {
			if !s.Finished() {
				lost = append(lost, *s)
			}
		}
	}
	for _, s := range rows {
		if s.ID != shard && s.Undeclared(table) {
			lost = append(lost, *s)
		}
	}
	var from time.Time
	for _, s := range lost {
		at := appliedTo(&s, rows, listed.Open, table.Owed())
		if at.IsZero() {
			return time.Time{}
		}
		from = earlier(from, at)
	}
	for _, s := range Unapplied(table, shards, merged) {
		at := s.AppliedPrefix(merged)
		if at.IsZero() {
			return time.Time{}
		}
		from = earlier(from, at.Add(-Slack))
	}
	return from.UTC()
}

// AppliedPrefix returns an event time before which all published messages of the shard are applied;
// zero if that is unknown.
func (s *Shard) AppliedPrefix(merged []Applied) time.Time {
	_, since := s.Waiting(merged)
	switch {
	case !since.IsZero():
		return since
	case !s.CoveredTo.IsZero():
		return s.CoveredTo
	case !s.FirstRead.IsZero():
		return s.FirstRead.Add(-cdc.Retention)
	}
	return time.Time{}
}

// GapsCome reports whether a raise for lost changes should wait. It should if shards of the
// generation were not read yet, because they may be gaps too. After an outage, one new generation
// should cover all such gaps. The wait ends when gapsAwaited has passed since the first gap was
// found, even if a shard cannot be read.
func GapsCome(table TableState, shards []Shard, now time.Time) bool {
	open, first := map[string]bool{}, time.Time{}
	for i := range shards {
		if s := &shards[i]; s.Label == table.Label {
			open[s.ID] = !s.Finished()
			if s.State == Gap && s.Generation >= table.Generation {
				first = earlier(first, s.DoneAt)
			}
		}
	}
	if first.IsZero() || table.AdoptedAt.IsZero() || now.Sub(first) >= gapsAwaited {
		return false
	}
	return slices.ContainsFunc(shards, func(s Shard) bool {
		return open[s.ID] && !open[s.Parent] && s.ReadTime().Before(table.AdoptedAt)
	})
}

// gapsAwaited is how long the raise of a generation waits for shards that were not read yet.
const gapsAwaited = time.Minute

// appliedTo returns an event time up to which every change of the shard is applied. It is the time
// of the shard's last change or, without one, the time that the shard or its ancestors cover. Slack
// is subtracted from this time. A root without changes covers only changes that the stream had
// already dropped when the root was first read.
func appliedTo(s *Shard, rows map[string]*Shard, open map[string]time.Time, owed time.Time) time.Time {
	for range len(rows) + 1 { // a lineage has no cycles; damaged rows might
		parent := rows[s.Parent]
		var at time.Time
		switch {
		case !s.Position.IsZero() && !s.EventTime.IsZero():
			at = s.EventTime
		case s.State == Done:
			at = s.Covers(open[s.ID], owed)
		case !s.CoveredTo.IsZero():
			at = s.CoveredTo
		case parent != nil && !parent.Finished():
			s = parent
			continue
		case parent != nil:
			at = parent.Covers(open[parent.ID], owed)
		case !s.FirstRead.IsZero():
			at = s.FirstRead.Add(-cdc.Retention)
		}
		if at.IsZero() {
			return at
		}
		return at.Add(-Slack)
	}
	return time.Time{}
}
