package checkpoint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// CutoverTry is an abandoned try of a request. It was abandoned because writes would have been
// frozen for too long, and the application then wrote again. Each try is an attempt with its own
// tokens. All tries share the request's approval, overrides, hours and expiry.
type CutoverTry struct {
	Attempt       uint32    `json:"attempt"`
	Reason        string    `json:"reason"`
	FreezeBegunAt time.Time `json:"freeze_begun_at,omitzero"`
	FrozenAt      time.Time `json:"frozen_at,omitzero"`
	UnfrozenAt    time.Time `json:"unfrozen_at,omitzero"`
}

// Cure is what the next try needs in order to succeed. Every next try also waits for a moment for a
// short freeze.
type Cure string

// The cures.
const (
	CureWait  Cure = ""      // nothing but time
	CureRaise Cure = "raise" // a request may still be executed, so the fence is raised again
)

// proofOfQuiet is how much longer a freeze may last if an open shard may receive no canary.
const proofOfQuiet = 25 * time.Second

// Limit returns how long this try may freeze the application before it is abandoned. The freeze
// counts from the hook's answer.
func (c *Cutover) Limit() time.Duration {
	most := c.atMost(c.Quiet)
	if c.Uncovered {
		most += proofOfQuiet
	}
	return most
}

// Foreseeable returns how long a freeze may be expected to last when it begins.
func (c *Cutover) Foreseeable() time.Duration { return c.atMost(c.Quiet || c.MayBeQuiet) }

func (c *Cutover) atMost(quiet bool) time.Duration {
	if quiet {
		return c.AtMost() - c.UnlessQuiet
	}
	return c.AtMost()
}

// FencesFirst reports whether the switch waits until late writes of replicator are rejected.
func (c *Cutover) FencesFirst() bool { return c.FenceFirst && !(c.FenceUnlessQuiet && c.Quiet) }

// within returns how long the hook that freezes the application may take.
func (p *CutoverPlan) within() time.Duration { return cmp.Or(p.FreezeWithin, time.Minute) }

// deadline returns how long a try may take, counted from the first call of the hook that freezes.
func (c *Cutover) deadline() time.Duration {
	return c.within() + cmp.Or(c.FreezeDeadline, max(30*time.Second, 2*c.Limit()))
}

// LongestFreeze returns how long a try may freeze the application, counted from the first call of
// the hook.
func (c *Cutover) LongestFreeze() time.Duration {
	if !c.Deadline.IsZero() {
		return c.Deadline.Sub(c.FreezeBegunAt)
	}
	return c.deadline()
}

// WouldFreeze returns how long a real cutover would have frozen the application, from the hook's
// answer to the call of the switch. It is known only from a complete rehearsal; otherwise it
// returns 0.
func (c *Cutover) WouldFreeze() time.Duration {
	i := slices.IndexFunc(c.Timeline, func(e CutoverEvent) bool { return e.Step == string(CutoverDrain) })
	if c.Step != CutoverRehearsed || i < 0 {
		return 0
	}
	return max(c.EndedAt.Sub(c.Timeline[i].At), 0)
}

// rehearsedWithin is how long a step of a rehearsal may take. Nothing is frozen in a rehearsal.
const rehearsedWithin = 10 * time.Minute

// Overdue returns how long the step may take, and whether that time has passed. If the step has no
// deadline, the limit is 0. All steps of a freeze share one deadline.
func (c *Cutover) Overdue(now time.Time) (limit time.Duration, over bool) {
	switch {
	case c.Step == CutoverFreeze:
		limit = c.within()
	case c.Step != CutoverDrain && c.Step != CutoverVerify && c.Step != CutoverFence:
	case c.Deadline.IsZero(): // a rehearsal
		limit = rehearsedWithin
	default:
		limit = max(c.Deadline.Sub(c.StepAt), 1)
	}
	return limit, limit > 0 && now.Sub(c.StepAt) > limit
}

// Trying reports whether the request has already abandoned a try. Such a request always waits for
// its gates, because the cause of the failure may have closed a gate.
func (c *Cutover) Trying() bool { return len(c.GivenUp) > 0 }

// AwaitsGates reports whether the attempt waits for a gate that is not ready.
func (c *Cutover) AwaitsGates() bool { return c.WhenReady || c.Trying() }

// GiveUp abandons a try. If the request has tries left, the next one begins once the application
// writes again.
func (c *Cutover) GiveUp(reason string, cure Cure, now time.Time) error {
	if !c.Step.Cancellable() || c.FreezeBegunAt.IsZero() {
		return c.Cancel(reason, now)
	}
	c.GivenUp = append(slices.Clone(c.GivenUp), CutoverTry{Attempt: c.Attempt, Reason: reason, FreezeBegunAt: c.FreezeBegunAt, FrozenAt: c.FrozenAt})
	if c.NextTry = len(c.GivenUp) < c.Tries; !c.NextTry {
		return c.Cancel(c.Reasons(), now)
	}
	c.RaiseAgain = cure == CureRaise
	c.Reason = reason
	c.enter(CutoverCancelling, now, fmt.Sprintf("try %d of %d is abandoned: %s", len(c.GivenUp), c.Tries, reason))
	return nil
}

// Reasons lists why each try was abandoned.
func (c *Cutover) Reasons() string {
	if len(c.GivenUp) == 1 {
		return c.GivenUp[0].Reason
	}
	var each []string
	for i, t := range c.GivenUp {
		each = append(each, fmt.Sprintf("try %d: %s", i+1, t.Reason))
	}
	return strings.Join(each, "; ")
}

// Again begins the next try of a request, once the application writes again and the tables have
// resumed.
func (c *Cutover) Again(now time.Time) error {
	if c.Step != CutoverCancelling || c.UnfrozenAt.IsZero() || !c.NextTry {
		return c.refuse("try again", "see replicator cutover check")
	}
	next := Cutover{
		header: c.header, CutoverPlan: c.CutoverPlan, Attempt: c.Attempt + 1, BegunAt: c.BegunAt, Canaries: c.Canaries, Candidates: c.Candidates, Measured: c.Measured, WaitsUntil: c.WaitsUntil,
		Raised: c.Raised, Hooks: c.Hooks, Timeline: c.Timeline, GivenUp: c.GivenUp, MayBeQuiet: c.MayBeQuiet, Denial: c.Denial,
	}
	if c.RaiseAgain || len(c.Fences) > 0 {
		next.Raised = nil
	}
	next.enter(CutoverRequested, now, fmt.Sprintf("try %d of %d begins", len(next.GivenUp)+1, c.Tries))
	*c = next
	return nil
}
