package checkpoint

import (
	"fmt"
	"time"
)

// LoadMode is how the rows of a load are written.
type LoadMode string

// The modes.
const (
	// AutoLoad writes a load as FastLoad does if that is allowed, and otherwise as GuardedLoad does.
	AutoLoad LoadMode = "auto"
	// GuardedLoad writes each row under a condition, so that it replaces no newer row.
	GuardedLoad LoadMode = "guarded"
	// FastLoad writes many rows in one request, without a condition. A sweep then removes what the
	// load wrote over or beside newer rows (sink.Marker).
	FastLoad LoadMode = "fast"
)

// FastTimeMargin is how much earlier the cells of a fast load are than the first read of the
// stream. The stream keeps changes for a day. So every change that is ever applied is later, even
// if two servers of the source disagree about the time.
const FastTimeMargin = 48 * time.Hour

// FastTime returns the time of the cells of a fast load that is admissible now. It returns false if
// no root of the stream has been read yet.
func FastTime(table TableState, shards []Shard) (time.Time, bool) {
	var first time.Time
	for _, s := range Roots(shards, table.Label) {
		first = earlier(first, s.FirstRead)
	}
	return first.Add(-FastTimeMargin).Truncate(time.Millisecond).UTC(), !first.IsZero()
}

// RefusesFast returns why the table's record does not allow a fast load; "" if it does. Only the
// first load into a target table that replicator created may be fast. Rows of an earlier load or
// generation could be newer than the load's images without showing it.
func (s TableState) RefusesFast() string {
	switch {
	case !s.MadeByUs:
		return "replicator did not create the target table"
	case s.Base != 0 || s.Load.Before > 0 || s.Load.Number > 0 && !s.Load.Fast:
		return "it is not the table's first load"
	case s.GapCount > 0 || s.NeedsLoad:
		return "the table had a gap"
	case s.Apply != Direct:
		return "changes are published to a topic"
	case !s.Load.Export.From.IsZero() || len(s.Load.Windows) > 0:
		return "an incremental export needs a condition on each row"
	case len(s.Former) > 0:
		return "the table had another mapping"
	}
	return ""
}

// Copying reports whether a fast load is not over yet. Until then, no row of the table may be
// compared with its item or repaired: late writes of the load may hide a difference, and the sweep
// would delete what a repair keeps.
func (s TableState) Copying() bool {
	stage := s.Stage()
	return s.Load.Fast && (stage == StageCopying || stage == StageSweeping)
}

// FastUntil returns the time by which a fast load and its sweep must be over; zero for another
// load. Later, the tombstone that shows a removed item could be collected before the sweep sees it.
// The argument `tombstones` is how long tombstones are surely kept; 0 if they are kept for ever. The
// time counts from the begin of the generation, or of the load if that is unknown: the process that
// completed the adoption may not have heard the service's time.
func (s TableState) FastUntil(tombstones time.Duration) time.Time {
	began := earlier(s.AdoptedAt, s.Load.StartedAt)
	if !s.Load.Fast || tombstones <= 0 || began.IsZero() {
		return time.Time{}
	}
	return began.Add(tombstones)
}

// NotFast is the gap that ends a fast load which may not go on. The next load is guarded.
func (s TableState) NotFast(why string) DeclaredGap {
	return DeclaredGap{Kind: KindAskedFor, Reason: fmt.Sprintf("the fast load %d ended early: %s", s.Load.Number, why)}
}
