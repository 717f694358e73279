package checkpoint

import (
	"cmp"
	"time"
)

// AtMost returns how long a freeze may be expected to last.
func (p *CutoverPlan) AtMost() time.Duration { return cmp.Or(p.FreezeAtMost, 8*time.Second) }

// ListedWithin returns the longest time after which a stream lists a child of a shard that has
// ended.
func (p *CutoverPlan) ListedWithin() time.Duration { return cmp.Or(p.ListingBound, 2*time.Minute) }

// AwaitMoment records that the attempt waits for a moment for a short freeze, and why it waits. The
// argument `next` is the expected time of that moment; zero if unknown. If the request has waited
// for too long, AwaitMoment ends it.
func (c *Cutover) AwaitMoment(now, next time.Time, why string) error {
	if c.Step != CutoverChecks {
		return c.refuse("wait in", "see replicator cutover check")
	}
	switch {
	case !c.WaitsUntil.IsZero():
	case !c.MomentUntil.IsZero():
		c.WaitsUntil = c.MomentUntil
	case c.MomentWithin > 0:
		c.WaitsUntil = now.Add(c.MomentWithin).UTC()
	}
	c.Trouble, c.MomentAt = why, time.Time{}
	if !next.IsZero() {
		c.MomentAt = next.UTC()
	}
	if !c.WaitsTooLong(now) {
		return nil
	}
	c.NoMoment = true
	return c.Cancel("nothing was frozen, because there was no suitable moment for a short freeze: "+why, now)
}

// WaitsTooLong reports whether the request has waited for too long for a moment for a short freeze.
func (c *Cutover) WaitsTooLong(now time.Time) bool {
	return !c.WaitsUntil.IsZero() && now.After(c.WaitsUntil)
}

// MomentPassed returns the attempt from CutoverFreeze to CutoverChecks, because the moment for a
// short freeze passed before the hook was called.
func (c *Cutover) MomentPassed(now time.Time, why string) error {
	if c.Step != CutoverFreeze || !c.FrozenAt.IsZero() {
		return c.refuse("wait in", "see replicator cutover check")
	}
	c.FreezeBegunAt, c.Deadline = time.Time{}, time.Time{}
	c.enter(CutoverChecks, now, "waiting again: "+why)
	return nil
}
