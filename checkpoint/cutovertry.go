package checkpoint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// CutoverTry is a try of a request that was abandoned, because writes would have been frozen for too
// long. The application wrote on. Each try is an attempt with tokens of its own. All tries have the
// plan of the request: its approval, overrides, hours and expiry.
type CutoverTry struct {
	Attempt       uint32    `json:"attempt"`
	Reason        string    `json:"reason"`
	FreezeBegunAt time.Time `json:"freeze_begun_at,omitzero"`
	FrozenAt      time.Time `json:"frozen_at,omitzero"`
	UnfrozenAt    time.Time `json:"unfrozen_at,omitzero"`
}

// Cure is what has to happen before the next try, besides the moment that every try waits for.
type Cure string

// The cures.
const (
	CureWait  Cure = ""      // time heals it
	CureRaise Cure = "raise" // a request may still be executed: another number of the fence, and a drop of this one
	CureQuiet Cure = "quiet" // a shard without a canary needs more time to be proved
)

// proofOfQuiet is how much longer a freeze lasts where an open shard gives no canary.
const proofOfQuiet = 25 * time.Second

// Limit returns how long this try may freeze the application before it is abandoned.
func (c *Cutover) Limit() time.Duration {
	if c.Uncovered {
		return c.AtMost() + proofOfQuiet
	}
	return c.AtMost()
}

// within is how long the hook that freezes may take.
func (p *CutoverPlan) within() time.Duration { return cmp.Or(p.FreezeWithin, time.Minute) }

// deadline is how long a try may take from the first call of the hook that freezes.
func (c *Cutover) deadline() time.Duration {
	return c.within() + cmp.Or(c.FreezeDeadline, max(30*time.Second, 2*c.Limit()))
}

// LongestFreeze returns how long a try may freeze the application, from the first call of the hook on.
func (c *Cutover) LongestFreeze() time.Duration {
	if !c.Deadline.IsZero() {
		return c.Deadline.Sub(c.FreezeBegunAt)
	}
	return c.deadline()
}

// WouldFreeze returns how long a real cutover would have frozen the application between the answer of
// the hook that freezes and the call of the switch, according to a rehearsal that is complete; else 0.
func (c *Cutover) WouldFreeze() time.Duration {
	i := slices.IndexFunc(c.Timeline, func(e CutoverEvent) bool { return e.Step == string(CutoverDrain) })
	if c.Step != CutoverRehearsed || i < 0 {
		return 0
	}
	return max(c.EndedAt.Sub(c.Timeline[i].At), 0)
}

// rehearsedWithin is how long a step of a rehearsal may take. Nothing is frozen meanwhile.
const rehearsedWithin = 10 * time.Minute

// Overdue returns how long the step may take, and whether that has passed; 0 if it has no deadline.
// All steps of a freeze have one deadline.
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

// Trying reports whether an attempt belongs to a request of which another try was abandoned. It waits
// for its gates in any case: the cause may have closed one.
func (c *Cutover) Trying() bool { return len(c.GivenUp) > 0 }

// AwaitsGates reports whether a gate that is not ready is waited for.
func (c *Cutover) AwaitsGates() bool { return c.WhenReady || c.Trying() }

// GiveUp ends a try. If the request has another one, that begins once the application writes again.
func (c *Cutover) GiveUp(reason string, cure Cure, now time.Time) error {
	if !c.Step.Cancellable() || c.FreezeBegunAt.IsZero() {
		return c.Cancel(reason, now)
	}
	c.GivenUp = append(slices.Clone(c.GivenUp), CutoverTry{Attempt: c.Attempt, Reason: reason, FreezeBegunAt: c.FreezeBegunAt, FrozenAt: c.FrozenAt})
	c.Uncovered = c.Uncovered || cure == CureQuiet
	if c.NextTry = len(c.GivenUp) < c.Tries; !c.NextTry {
		return c.Cancel(c.Reasons(), now)
	}
	c.RaiseAgain = cure == CureRaise
	c.Reason = reason
	c.enter(CutoverCancelling, now, fmt.Sprintf("try %d of %d is abandoned: %s", len(c.GivenUp), c.Tries, reason))
	return nil
}

// Reasons says why each try was abandoned.
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
		header: c.header, CutoverPlan: c.CutoverPlan, Attempt: c.Attempt + 1, BegunAt: c.BegunAt, Canaries: c.Canaries, WaitsUntil: c.WaitsUntil,
		Raised: c.Raised, Hooks: c.Hooks, Timeline: c.Timeline, GivenUp: c.GivenUp, Uncovered: c.Uncovered,
	}
	if c.RaiseAgain || len(c.Fences) > 0 {
		next.Raised = nil
	}
	next.enter(CutoverRequested, now, fmt.Sprintf("try %d of %d begins", len(next.GivenUp)+1, c.Tries))
	*c = next
	return nil
}
