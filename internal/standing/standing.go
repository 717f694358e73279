// Package standing judges the state of a table. From the ledger's records, Of computes one state
// word, the reasons, the time since when, and the next step. Every command, page and metric shows
// that word, so no two of them contradict each other. The package also owns the figures behind the
// word. These are lag, headroom, the time up to which changes are applied, whether a process
// answers, and what a verify proves. It is pure: it reads no store and no clock.
package standing

import (
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// State is the state word of a table.
type State string

const (
	Done       State = "done"        // the application has left the source permanently
	Cutover    State = "cutover"     // from the freeze until the watch for late writers ends
	Unknown    State = "unknown"     // the ledger or the target cannot be read, or clocks differ
	Paused     State = "paused"      // by an operator
	NeedsLoad  State = "needs_load"  // changes or rows are missing, and no load is in progress
	Stalled    State = "stalled"     // a shard is not read, or a step fails for three leases
	Preparing  State = "preparing"   // the stream has no complete listing yet, so nothing is read
	Copying    State = "copying"     // the items that existed are not all copied
	Sweeping   State = "sweeping"    // rows that the copy did not reach are compared with the source
	Parked     State = "parked"      // items could not be stored
	Differs    State = "differs"     // rows are known to differ
	CatchingUp State = "catching_up" // changes are unapplied, or may be
	InSync     State = "in_sync"     // everything up to three leases ago is applied
)

// States lists all states in the order in which they are checked: the first that applies is the
// state of a table.
var States = []State{Done, Cutover, Unknown, Paused, NeedsLoad, Stalled, Preparing, Copying, Sweeping, Parked, Differs, CatchingUp, InSync}

// rank returns the position of a state in that order.
func (s State) rank() int { return slices.Index(States, s) }

// Phase returns the phase of a migration, in the words of older documents.
func (s State) Phase() string {
	switch s {
	case Preparing:
		return "prepare"
	case InSync, Cutover, Done:
		return string(s)
	}
	return "copy"
}

// Text returns the state in words.
func (s State) Text() string {
	switch s {
	case Unknown:
		return "not known to be in sync"
	case NeedsLoad:
		return "needs a load"
	case Differs:
		return "different"
	}
	return strings.ReplaceAll(string(s), "_", " ")
}

// Gone is the reason for the suspension of a dropped table.
const Gone = "the table does not exist any more; its rows stay, as of the last change that was read"

// Facts are the inputs by which a table is judged, as read from the ledger. Times in the ledger
// come from the services or from workers' clocks; Now comes from the reader's clock.
type Facts struct {
	Table  checkpoint.TableState // zero if no worker has registered the table
	Named  bool                  // in the configuration; false for a table of a pattern
	Shards []checkpoint.Shard
	// Listings are needed only if a shard's children are unknown or unread.
	Listings    checkpoint.Listings
	Coordinator checkpoint.Heartbeat // the last heartbeat of the table's coordinator; zero if there is none
	Merged      []checkpoint.Applied // mode topic: the changes known to be applied
	DeadLetter  checkpoint.DeadLetter
	Parked      int // items
	Cutover     checkpoint.Cutover
	Doubts      []Doubt // about the target
	LoadsAgain  bool    // a load after a gap starts automatically (on_gap: load)
	Lease       time.Duration
	ReadAt      time.Time // when the ledger was read; zero means now
	Now         time.Time
}

// Doubt is a reason why a target's state is unknown, or why the target is not the one that was
// written.
type Doubt struct {
	Reason Reason
	Cause  string
	Since  time.Time
}

// Standing is the judged state of a table.
type Standing struct {
	// Conditions are all that apply, in the order of the states. There is at least one.
	Conditions []Condition
	// LoadNeeded says that changes or rows are missing until a load ends, whether or not one is in
	// progress.
	LoadNeeded bool
	LoadReason string
	Undeclared []checkpoint.Shard // gaps that the table's record does not include yet
	Shards     []Shard            // in the order of the facts
	Figures

	Left     bool // the application has left the source: nothing of it is read, loaded or repaired
	Dropped  bool // the source table no longer exists
	Drained  bool // and its stream is read to the end
	LongGone bool // and no change can be read late
	Passed   bool // a table of a pattern that was in sync until it was dropped: no migration waits for it
}

// State returns the first state that applies.
func (s *Standing) State() State { return s.Conditions[0].State }

// holds reports whether any of the states applies, first or not.
func (s *Standing) holds(states ...State) bool {
	return slices.ContainsFunc(s.Conditions, func(c Condition) bool { return slices.Contains(states, c.State) })
}

// Unloaded returns the first condition because of which the table is not completely loaded, swept
// and followed since; false if there is none. It does not judge whether changes are read in time.
func (s *Standing) Unloaded() (Condition, bool) { return s.first(Condition.unloaded) }

// Unapplied returns the first condition because of which unapplied changes may wait: they are not
// read or not written, or their state is unknown. False if there is none. The caller decides how
// old they may be.
func (s *Standing) Unapplied() (Condition, bool) {
	return s.first(func(c Condition) bool {
		return slices.Contains([]State{Unknown, Stalled, CatchingUp}, c.State) && c.Reason != lagging && !c.unloaded()
	})
}

func (c Condition) unloaded() bool {
	return slices.Contains([]State{Paused, NeedsLoad, Preparing, Copying, Sweeping}, c.State) ||
		slices.Contains([]Reason{newGeneration, suspended, dropped, streamEnded}, c.Reason)
}

// first returns the first condition of a kind.
func (s *Standing) first(of func(Condition) bool) (Condition, bool) {
	if i := slices.IndexFunc(s.Conditions, of); i >= 0 {
		return s.Conditions[i], true
	}
	return Condition{}, false
}

// Of judges a table.
func Of(f Facts) Standing {
	s := Standing{Left: f.switched()}
	if !s.Left {
		s.LoadNeeded, s.LoadReason, s.Undeclared = needed(f)
	}
	l := lineageOf(&f)
	s.Dropped = f.Table.Suspended.Reason == Gone
	l.measure(&s)
	if f.Table.Apply == checkpoint.Topic {
		f.measureTopic(&s.Figures)
	}
	s.LongGone = s.Dropped && l.longGone()
	if s.LongGone || s.Left { // no change can be read late
		s.Figures = Figures{}
		s.Drained = true
	}
	j := judgement{f: &f, s: &s}
	for _, ask := range []func(){j.left, j.unknown, j.paused, j.needsLoad, j.stalled, j.preparing, j.copying, j.sweeping, j.parked, j.differs, j.catchingUp} {
		if ask(); s.Left {
			break
		}
	}
	if len(s.Conditions) == 0 {
		j.hold(InSync, "", f.syncedSince(), "")
	}
	s.Passed = s.Dropped && !f.Named && !s.outlived() && !s.holds(Unknown, Paused, NeedsLoad, Preparing, Copying, Sweeping)
	return s
}

// Overall returns the index of the table whose state is the state of the migration; -1 without
// tables. A table between freeze and switch takes precedence. Then come tables that are neither
// done nor watching, in the order of the states, then a watching one, then a done one. Passed
// tables count only if there is no other.
func Overall(tables []Standing) int {
	best, rank := -1, 0
	for i := range tables {
		if r := tables[i].weight(); best < 0 || r < rank {
			best, rank = i, r
		}
	}
	return best
}

// weight ranks tables for Overall; the lowest wins.
func (s *Standing) weight() int {
	c := s.Conditions[0]
	switch {
	case s.Passed:
		return 3 * len(States)
	case c.State == Done:
		return 2*len(States) + 1
	case c.State == Cutover && c.Reason == watching:
		return 2 * len(States)
	}
	return c.State.rank()
}
