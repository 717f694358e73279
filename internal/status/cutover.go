package status

import (
	"context"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// cutoverStatus is the state of the cutover.
type cutoverStatus struct {
	Ready bool `json:"ready"` // whether every gate is ready
	// Names of the gates that are not ready, without duplicates.
	OpenGates []string `json:"open_gates"`
	// The gates of every table; empty after the application has switched.
	Gates     []gateStatus `json:"gates"`
	Step      string       `json:"step"` // empty before the first attempt
	Attempt   uint32       `json:"attempt"`
	Rehearsal bool         `json:"rehearsal"`
	// FrozenSeconds is how long the application's writes have been frozen, or were frozen.
	FrozenSeconds float64 `json:"frozen_seconds"`
	// FrozenSince is when the application was asked to stop its writes; null if writes are not
	// frozen now.
	FrozenSince *time.Time `json:"frozen_since"`
	// The process that drives the cutover; null if no process does.
	Driver  *string `json:"driver"`
	Trouble *string `json:"trouble"` // the condition that the step waits for, or its error
	Strays  int     `json:"strays"`  // number of changes to the source after the freeze
}

// gateStatus is the state of one gate of a cutover, for one table.
type gateStatus struct {
	Gate   string `json:"gate"`
	Table  string `json:"table"`
	Ready  bool   `json:"ready"`
	Figure string `json:"figure"` // the compared value, in words
}

// ReadyOf returns the bounds of the gates, from a configuration.
func ReadyOf(cfg *config.Config) cutover.Ready {
	r := cfg.Cutover.ReadyWhen
	return cutover.Ready{LagBelow: r.LagBelow, LagHeldFor: r.LagHeldFor, VerifyWithin: r.VerifyWithin, ParkedAtMost: r.ParkedAtMost, HeadroomAbove: r.Headroom,
		FinalWithin: cfg.FreezeDeadline(cfg.Tables), Lease: cfg.State.Lease}
}

// cutOver adds the state of the cutover to the document.
func (m *Document) cutOver(l *Input) {
	c := l.Cutover
	m.Cutover = cutoverStatus{Step: "none", OpenGates: []string{}, Gates: []gateStatus{}, Attempt: c.Attempt, Rehearsal: c.Rehearse, FrozenSeconds: c.FrozenFor(m.At).Seconds(),
		Trouble: terminal.Known(c.Trouble), Strays: c.Strays}
	if c.Attempt > 0 {
		m.Cutover.Step = string(c.Step)
	}
	if at, frozen := c.FrozenSince(); frozen {
		m.Cutover.FrozenSince = &at
	}
	m.Cutover.Driver = terminal.Known(l.Driver)
	for i, t := range l.Tables {
		in := l.Inputs[i]
		facts := m.facts(t, in)
		f := cutover.Figures{Found: in.Found, State: facts.Table, Shards: in.Shards, Merged: in.Merged, Parked: in.Parked, Targets: in.Targets,
			Listings: in.Listings, Coordinator: facts.Coordinator, DeadLetter: in.Dead, Doubts: facts.Doubts}
		for _, g := range f.Judge(t.From, ReadyOf(l.Cfg), m.At) {
			// After the switch the source is not read, so gates cannot be judged.
			if !c.Step.Switched() {
				m.Cutover.Gates = append(m.Cutover.Gates, gateStatus{g.Name, g.Table, g.Ready, g.Figure})
			}
			if !g.Ready && !slices.Contains(m.Cutover.OpenGates, g.Name) {
				m.Cutover.OpenGates = append(m.Cutover.OpenGates, g.Name)
			}
		}
	}
	m.Cutover.Ready = len(l.Tables) > 0 && len(m.Cutover.OpenGates) == 0 && c.Step.Over()
}

// CutoverFacts returns the cutover data that alerts need. Changes after a freeze matter only after
// a switch. Then no process writes them to the target. If an attempt is cancelled, changes are
// replicated as usual.
func (m *Document) CutoverFacts() admin.Cutover {
	c := admin.Cutover{Ready: m.Cutover.Ready, Strays: m.Cutover.Strays, Driven: m.Cutover.Driver != nil}
	if m.Cutover.FrozenSince != nil {
		c.Frozen = max(0, m.At.Sub(*m.Cutover.FrozenSince))
	}
	if m.cutover.Step.Active() {
		c.Limit = m.cutover.LongestFreeze()
	}
	if !m.cutover.UnfrozenAt.IsZero() || !m.cutover.SwitchedAt.IsZero() {
		c.Lasted = m.cutover.FrozenFor(m.At)
	}
	if m.cutover.Step == checkpoint.CutoverCancelling {
		c.Cancelling = max(0, m.At.Sub(m.cutover.StepAt))
	}
	if m.cutover.Step.Switched() {
		c.Unanswered = m.cutover.Unanswered()
	}
	return c
}

// lookForDriver finds out whether the driver of the cutover is alive. A single read of its lease
// does not show that. So it waits until the driver renews the lease, for at most half the duration
// of a lease. A watch that already knows the lease answers at once.
func (l *Input) lookForDriver(ctx context.Context, watch *checkpoint.Watch) (err error) {
	if l.Driver != "" {
		l.Driver, err = cutover.Drives(ctx, l.Ledger, watch)
	}
	return err
}

// Left reports whether the application has left the source.
func (m *Document) Left() bool { return checkpoint.CutoverStep(m.Cutover.Step).Switched() }
