package checkpoint

import (
	"time"
)

// Start begins an attempt in step CutoverRequested.
func (c *Cutover) Start(plan CutoverPlan, now time.Time) error {
	switch {
	case c.Step == CutoverDone:
		return c.refuse("start", "the tables are cut over for good")
	case !c.Step.Over():
		return c.refuse("start", "see replicator cutover check; cancel the cutover, or wait for its end")
	case len(plan.Tables) == 0 || len(plan.Targets) == 0:
		return &CutoverError{"start", "there are no tables", "name tables in the configuration"}
	}
	h, attempt, canaries := c.header, c.Attempt, c.Canaries
	*c = Cutover{header: h, CutoverPlan: plan, Attempt: attempt + 1, BegunAt: now.UTC(), Canaries: canaries}
	text := "requested"
	if plan.By != "" {
		text += " by " + plan.By
	}
	c.enter(CutoverRequested, now, text)
	return nil
}

// Approve records that an operator approves the request.
func (c *Cutover) Approve(now time.Time) error {
	if c.Step != CutoverRequested {
		return c.refuse("approve", "see replicator cutover check")
	}
	if !c.Approved {
		c.Approved = true
		c.Note(now, "approved")
	}
	return nil
}

// Postpone delays a request and its expiry by d.
func (c *Cutover) Postpone(d time.Duration, now time.Time) error {
	if c.Step != CutoverRequested {
		return c.refuse("postpone", "cancel it: replicator cutover cancel")
	}
	c.NotBefore = now.Add(d).UTC()
	if !c.Expires.IsZero() {
		c.Expires = later(c.Expires, now).Add(d).UTC()
	}
	c.Note(now, "postponed by "+d.String())
	return nil
}

// Await returns to CutoverRequested, because a gate is no longer ready.
func (c *Cutover) Await(now time.Time, why string) error {
	if c.Step != CutoverChecks || !c.WhenReady {
		return c.refuse("await", "see replicator cutover check")
	}
	c.enter(CutoverRequested, now, "waiting again: "+why)
	return nil
}

// Expired reports whether a request has expired.
func (c *Cutover) Expired(now time.Time) bool {
	return c.Step == CutoverRequested && !c.Expires.IsZero() && !now.Before(c.Expires)
}

// Due reports whether a request is approved and the time of day allows its checks to begin.
func (c *Cutover) Due(now time.Time) bool {
	if c.Step != CutoverRequested || !c.Approved || now.Before(c.NotBefore) {
		return false
	}
	if c.From == c.To {
		return true
	}
	at := now.UTC().Hour()*60 + now.UTC().Minute()
	if c.From < c.To {
		return c.From <= at && at < c.To
	}
	return at >= c.From || at < c.To
}
