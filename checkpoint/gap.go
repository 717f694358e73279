package checkpoint

import (
	"context"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// keptGaps bounds how many gaps a table's record lists; GapCount counts on.
const keptGaps = 50

// keptGenerations bounds how many generations are kept of the gaps before those.
const keptGenerations = 1000

// GapKind says what broke continuity, and so what mends it: windows of an incremental export mend
// gaps of the stream alone (H107), every other kind takes a copy.
type GapKind string

// The kinds.
const (
	KindStream         GapKind = "stream"             // changes were trimmed, or never recorded
	KindTargetLost     GapKind = "target_lost"        // the target was created anew, or restored
	KindLedgerLost     GapKind = "ledger_lost"        // the ledger was created anew, restored or renamed
	KindMappingChanged GapKind = "mapping_changed"    // what the former mapping wrote has to be asserted again
	KindCreatedAnew    GapKind = "table_created_anew" // the source table is another one of the same name
	KindAskedFor       GapKind = "asked_for"          // an operator wants the load done again
	KindSweep          GapKind = "sweep"              // a sweep left rows of ours: no mapping explains them, or the target refuses their removal
	KindUnknown        GapKind = "unknown"            // declared by a version that kept no kinds
)

// widen is the kind of two losses together: a stream's is the only one that something less than a
// copy mends.
func (k GapKind) widen(other GapKind) GapKind {
	if k == "" || k == KindStream && other != "" || other == KindMappingChanged {
		return other // the last asks for a sweep under both mappings
	}
	return k
}

// Gap is a break of continuity: changes of the stream, or rows of the target, that were lost.
type DeclaredGap struct {
	At         time.Time `json:"at"`
	Kind       GapKind   `json:"kind,omitempty"`
	Shard      string    `json:"shard,omitempty"`
	Reason     string    `json:"reason"`
	Generation uint32    `json:"generation"` // that was ended by it
	// LostFrom is an event time before which the stream lost nothing; zero if unknown, and for
	// every other kind.
	LostFrom time.Time `json:"lost_from,omitzero"`
	// Shards is how many shards were gaps when it was declared; 0 if none was, as of a whole stream.
	Shards int `json:"shards,omitempty"`
}

// noteGap adds the gap once and suspends the promise, unless a later generation was loaded and
// swept already.
func noteGap(s *TableState, gap DeclaredGap) {
	if gap.Kind == "" || gap.Kind == KindStream && gap.LostFrom.IsZero() {
		gap.Kind = KindUnknown // no window is known to begin early enough
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

// forgetGaps keeps of the oldest gaps which generations they ended.
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

// HadGeneration reports whether the ledger has had a generation, or has taken over what a lost ledger
// wrote in it. A row of any other is another migration's.
func (s TableState) HadGeneration(generation uint32) bool {
	return generation == s.Generation || generation == s.Base || generation < s.inherited() || slices.Contains(s.Earlier, generation) ||
		slices.ContainsFunc(s.Gaps, func(g DeclaredGap) bool { return g.Generation == generation })
}

// inherited is the generation that was raised above that of the last lost ledger: all below were
// written under that, or by this one. 0: none was lost.
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

// suspend ends the promise until the table is loaded again. A load of windows that is not over may
// have removed what a later window of it brings back: to its first image everything has to be said
// again.
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

// earlier is the earlier of two times, of which zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// count makes a gap of the stream say what all shards lost that are gaps by now, those included of
// which changes were trimmed and nobody has noticed: whoever is behind for longer than the stream
// keeps changes would find a gap of its own, one after the other, and each would begin a generation.
// It marks their rows, so that a row that becomes a gap afterwards, and that this raise does not
// know, is not reopened before the record has its loss too. It reports whether an earlier raise
// counted the named shard already.
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

// counted reports whether the gap that the shard was in a generation is in the table's record: its
// row says so, or it was reopened since.
func (s *Shard) counted(table TableState, generation uint32) bool {
	noted := s.State == Gap && s.Noted && s.Generation < table.Generation
	return s.Label == table.Label && (noted || s.Generation > generation)
}

// trimmedUnread is why a shard is a gap that nobody has read since the stream dropped its changes.
const trimmedUnread = "the changes after its checkpoint are older than the stream keeps them"

// giveUpOverdue makes gaps of the shards whose next changes are older than the stream keeps them,
// where a shard is a gap of its own; the gap of a whole stream is of all that are not finished. It
// reports whether it wrote, or found, a row that is another than it was read.
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

// note marks the rows of all gaps that are not declared. It returns false if one of them is no
// longer as it was read.
func (l *Ledger) note(ctx context.Context, table TableState, shards []Shard) (bool, error) {
	for _, s := range shards {
		if !s.Undeclared(table) || s.Noted {
			continue
		}
		s.Noted = true
		s.Epoch++ // whoever declared it writes the row no more (I6)
		if done, err := l.swap(ctx, l.store, s.key(l), s.Counter, l.stamp(&s.header, &s)); err != nil || !done {
			return false, err
		}
	}
	return true, nil
}

// lostFrom adds to a gap how many shards it is of, and since when it lost changes. A time that the
// gap has already holds too.
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

// LostFrom is an event time before which nothing is lost by a gap of the named shard of the table's
// stream: its own, that of every other shard that is a gap by now, and that of every shard that was
// read to its end while nobody knows its children, because they may be gone as well. The gap of no
// shard, or of one that has no row, may have begun in every shard that is not finished. With a
// topic, what was published and is not known to be applied ends with the generation as well. It is
// zero if one of them does not say.
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
		from = earlier(from, at)
	}
	return from.UTC()
}

// AppliedPrefix is an event time up to which everything that was published of the shard is applied,
// less Slack.
func (s *Shard) AppliedPrefix(merged []Applied) time.Time {
	_, through := s.Behind(merged)
	at := through.At
	switch {
	case !at.IsZero():
	case !s.CoveredTo.IsZero():
		at = s.CoveredTo
	case !s.FirstRead.IsZero():
		at = s.FirstRead.Add(-cdc.Retention)
	default:
		return at
	}
	return at.Add(-Slack)
}

// GapsCome reports whether a raise for what is lost should wait, because shards of the generation
// were not read yet and may be gaps as well: after an outage one generation is to begin for all of
// them. It waits for at most gapsAwaited after the first gap was found. A shard that nobody can
// read does not hold it up for longer.
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

// gapsAwaited is how long the raise of a generation waits for shards that nobody has read yet.
const gapsAwaited = time.Minute

// appliedTo is an event time up to which everything of the shard is applied: that of its last
// change, else what its ancestors cover, less Slack. A root in which no change was found covers
// nothing that the stream had kept when it was first read.
func appliedTo(s *Shard, rows map[string]*Shard, open map[string]time.Time, owed time.Time) time.Time {
	for range len(rows) + 1 { // a lineage has no circles; damaged rows might
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
