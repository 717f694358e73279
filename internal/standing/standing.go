// Package standing judges the state of a table. Of makes one word of what the ledger holds, with
// the reasons, the time since when, and the next step. Every command, page and metric reads that
// word, so that no two of them contradict each other. The package also owns the figures that the
// word rests on: lag, headroom, the time up to which changes are applied, whether a process
// answers, and what a verify proves. It is pure: it reads no store and no clock.
package standing

import (
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// State is the word for how a table stands.
type State string

// The states.
const (
	Done       State = "done"        // the application has left the source for good
	Cutover    State = "cutover"     // from the freeze until nobody watches for late writers any more
	Unknown    State = "unknown"     // the ledger or the target cannot be read, or clocks differ
	Paused     State = "paused"      // by an operator
	NeedsLoad  State = "needs_load"  // changes or rows are missing, and no load is under way
	Stalled    State = "stalled"     // a shard is not read, or a step fails for three leases
	Preparing  State = "preparing"   // nothing is read before the stream was listed as a whole
	Copying    State = "copying"     // the items that existed are not all copied
	Sweeping   State = "sweeping"    // rows that the copy did not reach are compared with the source
	Parked     State = "parked"      // items could not be stored
	Differs    State = "differs"     // rows are known to differ
	CatchingUp State = "catching_up" // changes are known that are not applied, or may be
	InSync     State = "in_sync"     // everything up to three leases ago is applied
)

// States are all states in the order in which they are asked for: the first that holds is the
// state of a table.
var States = []State{Done, Cutover, Unknown, Paused, NeedsLoad, Stalled, Preparing, Copying, Sweeping, Parked, Differs, CatchingUp, InSync}

// rank is the place of a state in the order.
func (s State) rank() int { return slices.Index(States, s) }

// Phase is the phase of a migration in the words of older documents.
func (s State) Phase() string {
	switch s {
	case Preparing:
		return "prepare"
	case InSync, Cutover, Done:
		return string(s)
	}
	return "copy"
}

// Text is the state in words.
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

// Gone is why a table is suspended that was dropped.
const Gone = "the table does not exist any more; its rows stay, as of the last change that was read"

// Facts are what a table is judged by, as they were read from the ledger. Times in the ledger are
// those of the services or of the workers' clocks; Now is that of who looks.
type Facts struct {
	Table  checkpoint.TableState // its zero value if no worker has met the table
	Named  bool                  // by the configuration; false for a table of a pattern
	Shards []checkpoint.Shard
	// Listings are needed only where a shard's children are unknown, or not read yet.
	Listings    checkpoint.Listings
	Coordinator checkpoint.Heartbeat // the last beat of the table's coordinator; zero if there is none
	Merged      []checkpoint.Applied // mode topic: what is known to be applied
	DeadLetter  checkpoint.DeadLetter
	Parked      int // items
	Cutover     checkpoint.Cutover
	Doubts      []Doubt // about the target
	LoadsAgain  bool    // a load after a gap begins by itself (on_gap: load)
	Lease       time.Duration
	ReadAt      time.Time // when the ledger was read; zero is now
	Now         time.Time
}

// Doubt is why nothing is known of a target, or that it is not the one that was written.
type Doubt struct {
	Reason Reason
	Cause  string
	Since  time.Time
}

// Standing is how a table stands.
type Standing struct {
	// Conditions are all that hold, in the order of the states. There is at least one.
	Conditions []Condition
	// LoadNeeded says that changes or rows are missing until a load ends, be one under way or not.
	LoadNeeded bool
	LoadReason string
	Undeclared []checkpoint.Shard // gaps that the table's record does not account for yet
	Shards     []Shard            // in the order of the facts
	Figures

	Left     bool // the application has left the source: nothing of it is read, loaded or repaired any more
	Dropped  bool // the source table does not exist any more
	Drained  bool // and nothing of its stream is left to read
	LongGone bool // and nothing can be read late any more
	Passed   bool // a table of a pattern that was in sync until it was dropped: no migration waits for it
}

// State is the first state that holds.
func (s *Standing) State() State { return s.Conditions[0].State }

// holds reports whether one of the states holds, be it the first or not.
func (s *Standing) holds(states ...State) bool {
	return slices.ContainsFunc(s.Conditions, func(c Condition) bool { return slices.Contains(states, c.State) })
}

// Unloaded is the first condition by which not everything is loaded, swept and followed since;
// false if there is none. Whether it is read in time is another question.
func (s *Standing) Unloaded() (Condition, bool) { return s.first(Condition.unloaded) }

// Unapplied is the first condition by which changes may wait that are not applied, because they are
// not read or not written, or nobody knows; false if there is none. How old they may be is for who
// asks to say.
func (s *Standing) Unapplied() (Condition, bool) {
	return s.first(func(c Condition) bool {
		return slices.Contains([]State{Unknown, Stalled, CatchingUp}, c.State) && c.Reason != lagging && !c.unloaded()
	})
}

func (c Condition) unloaded() bool {
	return slices.Contains([]State{Paused, NeedsLoad, Preparing, Copying, Sweeping}, c.State) ||
		slices.Contains([]Reason{newGeneration, suspended, dropped, streamEnded}, c.Reason)
}

// first is the first condition of a kind.
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
	if s.LongGone || s.Left { // nothing is read late any more
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

// Overall is the place of the table whose state is that of the migration: while one is between
// freeze and switch that one, else the first in the order of the states among those that are
// neither done nor watching, else one that is watching, else one that is done. Tables that are
// passed count only where there is no other. It is -1 if there are none.
func Overall(tables []Standing) int {
	best, rank := -1, 0
	for i := range tables {
		if r := tables[i].weight(); best < 0 || r < rank {
			best, rank = i, r
		}
	}
	return best
}

// weight ranks tables for Overall: the least is that of the migration.
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
