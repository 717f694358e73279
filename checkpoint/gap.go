package checkpoint

import (
	"context"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// keptGaps bounds how many gaps a table's record lists; GapCount counts on.
const keptGaps = 50

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
	s.GapCount++
	if extra := len(s.Gaps) - keptGaps; extra > 0 {
		s.Gaps = slices.Delete(s.Gaps, 0, extra)
	}
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

func (l *Ledger) lostFrom(ctx context.Context, source, shard string) (time.Time, error) {
	table, _, err := l.Table(ctx, source)
	if err != nil {
		return time.Time{}, err
	}
	shards, err := l.Shards(ctx, source)
	if err != nil {
		return time.Time{}, err
	}
	listed, err := l.Listings(ctx, source, table.Label)
	if err != nil {
		return time.Time{}, err
	}
	return LostFrom(table, shards, listed, shard), nil
}

// LostFrom is an event time before which nothing is lost by a gap of the named shard of the table's
// stream: its own, and that of every shard that was read to its end while nobody knows its
// children, because they may be gone as well. The gap of no shard, or of one that has no row, may
// have begun in every shard that is not finished. It is zero if one of them does not say.
func LostFrom(table TableState, shards []Shard, listed Listings, shard string) time.Time {
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
	var from time.Time
	for _, s := range lost {
		at := appliedTo(&s, rows, listed.Open, table.Owed())
		if at.IsZero() {
			return time.Time{}
		}
		from = earlier(from, at)
	}
	return from.UTC()
}

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
