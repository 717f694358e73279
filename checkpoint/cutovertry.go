package checkpoint

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// CutoverTry is a try of a request that was given up, because writes would have been frozen for too
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

// Limit returns how long this try may freeze the application before it is given up.
func (c *Cutover) Limit() time.Duration {
	if c.Uncovered {
		return c.AtMost() + proofOfQuiet
	}
	return c.AtMost()
}

// Trying reports whether an attempt belongs to a request of which another try was given up. It waits
// for its gates in any case: what the last try had to be given up for may have closed one.
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
	c.enter(CutoverCancelling, now, fmt.Sprintf("try %d of %d is given up: %s", len(c.GivenUp), c.Tries, reason))
	return nil
}

// Reasons says why each try was given up.
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
