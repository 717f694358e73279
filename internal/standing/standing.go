// Package standing judges the state of a table. From the ledger's records, Of computes a state with
// its reasons, the time since which it applies, and the next step. All commands, pages and metrics
// show this state, so they cannot contradict each other. The package also computes the figures on
// which the state depends, such as lag, headroom, and the time up to which changes are applied. It
// reads no store and no clock.
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
	Done    State = "done"    // the application has left the source permanently
	Cutover State = "cutover" // from the freeze until the watch for late writers ends
	// Unknown: the ledger or the target cannot be read, or clocks differ.
	Unknown   State = "unknown"
	Paused    State = "paused"     // paused by an operator
	NeedsLoad State = "needs_load" // changes or rows are missing, and no load is in progress
	// A shard was not read, or a step has failed, for three lease durations.
	Stalled State = "stalled"
	// The stream has no complete listing yet, so its shards are not read.
	Preparing  State = "preparing"
	Copying    State = "copying"     // not all existing items are copied
	Sweeping   State = "sweeping"    // rows that the copy did not write are compared with the source
	Parked     State = "parked"      // items could not be stored
	Differs    State = "differs"     // known rows differ from their items
	CatchingUp State = "catching_up" // changes may be unapplied
	// All changes are applied, except those of the last three lease durations.
	InSync State = "in_sync"
)

// States lists all states in the order in which they are checked. The first state that applies is
// the state of a table.
var States = []State{Done, Cutover, Unknown, Paused, NeedsLoad, Stalled, Preparing, Copying, Sweeping, Parked, Differs, CatchingUp, InSync}

// rank returns the position of a state in States.
func (s State) rank() int { return slices.Index(States, s) }

// Phase returns the phase of a migration to which the state belongs.
func (s State) Phase() string {
	switch s {
	case Preparing:
		return "prepare"
	case InSync, Cutover, Done:
		return string(s)
	}
	return "copy"
}

// Text describes the state in words.
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

// Gone is the reason with which a dropped table is suspended.
const Gone = "the table no longer exists; its rows stay, as of the last change that was read"

// Facts are the data from which a table is judged, as read from the ledger. Times in the ledger
// come from the services or from workers' clocks. Now comes from the clock of the process that
// reads the ledger.
type Facts struct {
	Table  checkpoint.TableState // zero if no worker has registered the table
	Named  bool                  // the configuration names the table; false if a pattern matched it
	Shards []checkpoint.Shard
	// Listings are needed only if a shard's children are unknown or unread; otherwise they may be
	// zero.
	Listings    checkpoint.Listings
	Coordinator checkpoint.Heartbeat // last heartbeat of the table's coordinator; zero if there is none
	Merged      []checkpoint.Applied // in mode topic: how far each applier is known to have applied messages
	DeadLetter  checkpoint.DeadLetter
	Parked      int // number of parked items
	Cutover     checkpoint.Cutover
	Doubts      []Doubt // doubts about the target
	LoadsAgain  bool    // loads after a gap start automatically (on_gap: load)
	Lease       time.Duration
	ReadAt      time.Time // when the ledger was read; zero means now
	Now         time.Time
}

// Doubt is a reason why a target's state is unknown, or why the target is not the table that
// replicator wrote earlier.
type Doubt struct {
	Reason Reason
	Cause  string
	Since  time.Time
}

// Standing is the state of a table, as judged from its Facts.
type Standing struct {
	// Conditions are all conditions that apply, in the order of the states. There is at least one.
	Conditions []Condition
	// LoadNeeded reports whether changes or rows are missing until a load ends. It is true even if
	// that load is in progress.
	LoadNeeded bool
	LoadReason string
	Undeclared []checkpoint.Shard // gaps that the table's record does not include yet
	Shards     []Shard            // in the order of Facts.Shards
	Figures

	// Left reports that the application has left the source, so the table is not read, loaded or
	// repaired.
	Left     bool
	Dropped  bool // the source table no longer exists
	Drained  bool // the table was dropped, and its stream is read to the end
	LongGone bool // the table was dropped, and all its changes were read in time
	// Passed reports whether the table matched a pattern and was in sync until it was dropped. No
	// goal waits for such a table.
	Passed bool
}

// State returns the first state that applies.
func (s *Standing) State() State { return s.Conditions[0].State }

// holds reports whether any of the states applies, first or not.
func (s *Standing) holds(states ...State) bool {
	return slices.ContainsFunc(s.Conditions, func(c Condition) bool { return slices.Contains(states, c.State) })
}

// Unloaded returns the first condition that means that the table is not completely loaded and
// swept, or was not replicated since then. It returns false if there is none. It ignores whether
// changes are read in time.
func (s *Standing) Unloaded() (Condition, bool) { return s.first(Condition.unloaded) }

// Unapplied returns the first condition that means that changes may be unapplied: they are not
// read, not written, or unknown. It returns false if there is none. The caller decides how old
// unapplied changes may be.
func (s *Standing) Unapplied() (Condition, bool) {
	return s.first(func(c Condition) bool {
		return slices.Contains([]State{Unknown, Stalled, CatchingUp}, c.State) && c.Reason != lagging && !c.unloaded()
	})
}

func (c Condition) unloaded() bool {
	return slices.Contains([]State{Paused, NeedsLoad, Preparing, Copying, Sweeping}, c.State) ||
		slices.Contains([]Reason{newGeneration, suspended, dropped, streamEnded}, c.Reason)
}

// first returns the first condition for which the given function returns true.
func (s *Standing) first(of func(Condition) bool) (Condition, bool) {
	if i := slices.IndexFunc(s.Conditions, of); i >= 0 {
		return s.Conditions[i], true
	}
	return Condition{}, false
}

// Of judges the state of a table from facts.
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
	if s.LongGone || s.Left { // all changes were read in time, or no longer matter
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

// Overall returns the index of the table whose state is shown for the whole migration; -1 without
// tables. A table between freeze and switch takes precedence. Other tables follow, in the order of
// their states. Tables that are watched for late writers come next, and tables that are done come
// last. Passed tables count only if there are no other tables.
func Overall(tables []Standing) int {
	best, rank := -1, 0
	for i := range tables {
		if r := tables[i].weight(); best < 0 || r < rank {
			best, rank = i, r
		}
	}
	return best
}

// weight ranks tables for Overall. The table with the lowest weight is chosen.
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
