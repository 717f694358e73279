package status

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Cutover is the state of the cutover of one group of tables.
type Cutover struct {
	Group  string   `json:"group"`  // name of the group
	Tables []string `json:"tables"` // source tables of the group
	Ready  bool     `json:"ready"`  // every gate is ready
	// OpenGates are the names of the gates that are not ready, each once.
	OpenGates []string `json:"open_gates"`
	// Gates are the gates of every table. Gates is empty once the application has switched.
	Gates []gateStatus `json:"gates"`
	// Direction is back in a rollback, and until another cutover begins; otherwise forward.
	Direction string `json:"direction"`
	// Step is none before the first attempt. It is rolled_back once a rollback has moved the
	// application.
	Step      string `json:"step"`
	Attempt   uint32 `json:"attempt"`
	Rehearsal bool   `json:"rehearsal"`
	// FrozenSeconds is how long the application's writes have been frozen, or were frozen.
	FrozenSeconds float64 `json:"frozen_seconds"`
	// FrozenSince is when the application was asked to stop its writes; null if writes are not
	// frozen now.
	FrozenSince *time.Time `json:"frozen_since"`
	// Driver is the process that drives the cutover; null if no process does.
	Driver  *string `json:"driver"`
	Trouble *string `json:"trouble"` // the condition that the step waits for, or its error
	Strays  int     `json:"strays"`  // number of changes to the source that the target lacks
	// CanRollBack is null unless DynamoDB follows.
	CanRollBack *CanRollBack `json:"can_roll_back"`

	record checkpoint.Cutover
	flag   string // the flag that selects the group in commands; "" if there is only one group
}

// gateStatus is the state of one gate of a cutover, for one table.
type gateStatus struct {
	Gate   string `json:"gate"`
	Table  string `json:"table"`
	Ready  bool   `json:"ready"`
	Figure string `json:"figure"` // the compared value, in words
}

// ReadyOf returns the bounds of the gates, from a configuration.
func ReadyOf(cfg *config.Config) readiness.Limits {
	r := cfg.Cutover.ReadyWhen
	return readiness.Limits{LagBelow: r.LagBelow, LagHeldFor: r.LagHeldFor, VerifyWithin: r.VerifyWithin, ParkedAtMost: r.ParkedAtMost, HeadroomAbove: r.Headroom,
		FinalWithin: cfg.FreezeDeadline(cfg.Tables), Lease: cfg.State.Lease}
}

// cutOver adds the states of the cutovers to the document.
func (m *Document) cutOver(l *Input, env config.Lookup) {
	gates := m.gates(l)
	m.Cutovers = []Cutover{}
	shown := map[string]bool{}
	groups := l.Cfg.Groups(l.Tables)
	for _, g := range groups {
		var sources []string
		for _, t := range g.Tables {
			sources = append(sources, t.From)
		}
		c := l.Cutovers.OfGroup(g.Row, sources, g.Patterns)
		if len(sources) == 0 && c.Attempt == 0 && len(groups) > 1 || c.Attempt > 0 && shown[c.Row] {
			continue // a cutover from before the groups may cover several of them
		}
		shown[c.Row] = true
		one := m.cutoverOf(c, l.driver(c.Row))
		one.CanRollBack = l.canRollBack(c, env, m.At)
		one.Group = cmp.Or(c.Group, g.Name)
		if one.Tables = sources; c.Attempt > 0 && len(c.Tables) > 0 {
			one.Tables = c.Tables
		}
		if len(groups) > 1 {
			one.flag = " --group " + standing.Quote(one.Group)
		}
		one.judge(gates)
		m.Cutovers = append(m.Cutovers, one)
	}
	m.Cutover = m.cutoverOf(checkpoint.Cutover{}, "")
	if len(m.Cutovers) > 0 {
		m.Cutover = slices.MaxFunc(m.Cutovers, func(a, b Cutover) int { return cmp.Compare(a.urgency(), b.urgency()) })
	}
	m.Cutover.judge(gates)
	m.Cutover.Ready = m.Cutover.Ready && len(l.Tables) > 0
}

// gates judges the gates of every table. After the switch of a table its stream is not read, so its
// gates cannot be judged.
func (m *Document) gates(l *Input) (all []checkpoint.CutoverGate) {
	for i, t := range l.Tables {
		in := l.Inputs[i]
		facts := m.facts(t, in)
		f := readiness.Figures{Found: in.Found, State: facts.Table, Shards: in.Shards, Merged: in.Merged, Parked: in.Parked, Targets: in.Targets,
			Listings: in.Listings, Coordinator: facts.Coordinator, DeadLetter: in.Dead, Doubts: facts.Doubts}
		all = append(all, f.Judge(t.From, ReadyOf(l.Cfg), m.At)...)
	}
	return all
}

// cutoverOf returns the state of the cutover of one group, without its gates.
func (m *Document) cutoverOf(c checkpoint.Cutover, driver string) Cutover {
	shown := c.Latest()
	s := Cutover{record: c, Direction: shown.Direction.String(), Step: "none", Tables: []string{}, Attempt: shown.Attempt, Rehearsal: c.Rehearse, FrozenSeconds: shown.FrozenFor(m.At).Seconds(),
		Trouble: terminal.Known(shown.Trouble), Strays: c.Strays, Driver: terminal.Known(driver)}
	switch {
	case c.Step == checkpoint.CutoverRolledBack:
		s.Step = string(c.Step)
	case c.Attempt > 0:
		s.Step = string(shown.Step)
	}
	if at, frozen := shown.FrozenSince(); frozen {
		s.FrozenSince = &at
	}
	return s
}

// judge adds the gates of the group's tables.
func (s *Cutover) judge(gates []checkpoint.CutoverGate) {
	s.OpenGates, s.Gates = []string{}, []gateStatus{}
	for _, g := range gates {
		if !slices.Contains(s.Tables, g.Table) {
			continue
		}
		if !s.record.Step.Switched() {
			s.Gates = append(s.Gates, gateStatus{g.Name, g.Table, g.Ready, g.Figure})
		}
		if !g.Ready && !slices.Contains(s.OpenGates, g.Name) {
			s.OpenGates = append(s.OpenGates, g.Name)
		}
	}
	s.Ready = len(s.Tables) > 0 && len(s.OpenGates) == 0 && s.record.Step.Over()
}

// Latest returns the attempt that is shown: the rollback if it counts, otherwise the cutover itself. It
// has no attempt if the document was read from JSON.
func (s *Cutover) Latest() *checkpoint.Cutover {
	c := s.record.Latest()
	return &c
}

// urgency ranks the states of cutovers: the document shows the most urgent one first.
func (s *Cutover) urgency() int {
	c, shown := &s.record, s.Latest()
	switch _, frozen := shown.FrozenSince(); {
	case frozen || shown.Step == checkpoint.CutoverCancelling || shown.Step == checkpoint.CutoverSwitching:
		return 5
	case c.Step.Switched() && c.Unanswered() > 0:
		return 4
	case shown.Step.Active() && !shown.Step.Switched():
		return 3
	case c.Attempt == 0 || c.Step.Over():
		return 2
	case c.Step.Active():
		return 1
	}
	return 0
}

// CutoverFacts returns the data about the cutover of each group that alerts need. Changes after a freeze
// matter only after a switch. Then no process writes them to the target. If an attempt is cancelled,
// changes are replicated as usual.
func (m *Document) CutoverFacts() (all []admin.Cutover) {
	for _, s := range m.Cutovers {
		r := s.Latest()
		c := admin.Cutover{Group: s.Group, Ready: s.Ready, Strays: s.Strays, Driven: s.Driver != nil}
		if s.FrozenSince != nil {
			c.Frozen = max(0, m.At.Sub(*s.FrozenSince))
		}
		if r.Step.Active() {
			c.Limit = r.LongestFreeze()
		}
		if !r.UnfrozenAt.IsZero() || !r.SwitchedAt.IsZero() {
			c.Lasted = r.FrozenFor(m.At)
		}
		if r.Step == checkpoint.CutoverCancelling {
			c.Cancelling = max(0, m.At.Sub(r.StepAt))
		}
		if s.record.Step.Switched() {
			c.Unanswered = s.record.Unanswered()
		}
		all = append(all, c)
	}
	return all
}

// needsDriver reports whether a process must drive the cutover or its rollback. After the switch of a
// rollback, the tables still have to be made ready for a load.
func needsDriver(c *checkpoint.Cutover) bool { return c.Step.Active() || c.RollingBack() }

// driver returns the process that drives the cutover of a group; "" if none does.
func (l *Input) driver(row string) string {
	for _, d := range l.Drivers {
		if d.Row == row {
			return d.Process
		}
	}
	return ""
}

// lookForDrivers finds out whether the drivers of the cutovers are alive. A single read of a lease does
// not show that. So it waits until the driver renews the lease, for at most half the duration of a
// lease. A watch that already knows the lease answers at once.
func (l *Input) lookForDrivers(ctx context.Context, watch *checkpoint.Watch) error {
	for i := range l.Drivers {
		if d := &l.Drivers[i]; d.Process != "" {
			var err error
			if d.Process, err = Drives(ctx, l.Ledger, d.Row, watch); err != nil {
				return err
			}
		}
	}
	return nil
}

// allLeft reports whether the application has left every table.
func (l *Input) allLeft() bool {
	for i := range l.Tables {
		if !l.left(i) {
			return false
		}
	}
	return len(l.Tables) > 0
}

// left reports whether the application has left the table. A document that was read from JSON has only
// the table's state and its reason.
func (t *Table) left() bool {
	watched := t.State == standing.Cutover && t.Reason != nil && *t.Reason == string(checkpoint.CutoverWatching)
	return t.stands.Left || t.State == standing.Done || watched
}

// Stays reports whether the application still uses a source table.
func (m *Document) Stays(source string) bool {
	i := slices.IndexFunc(m.Tables, func(t Table) bool { return t.Source == source })
	return i < 0 || !m.Tables[i].left()
}

// Left reports whether the application has left every table.
func (m *Document) Left() bool {
	for i := range m.Tables {
		if !m.Tables[i].left() {
			return false
		}
	}
	return len(m.Tables) > 0 || checkpoint.CutoverStep(m.Cutover.Step).Switched()
}
