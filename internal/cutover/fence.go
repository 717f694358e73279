package cutover

import (
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// fence halts all tables, and refuses whatever they have under way.
func (v *drive) fence(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	if stray, err := v.stragglers(ctx, c); err != nil || stray != "" {
		if err == nil {
			err = v.cancel(ctx, c, now, "%s", stray)
		}
		return err
	}
	if !c.Rehearse {
		for _, source := range c.Tables {
			if _, err := v.Ledger.UpdateTable(ctx, source, func(s *checkpoint.TableState) error { return s.HaltFor(c.Attempt) }); err != nil {
				return err
			}
		}
	}
	fences := map[string]uint64{}
	for _, target := range c.Targets {
		n := c.Fences[target]
		if n == 0 {
			t, err := v.Fence.Raise(ctx, target)
			if err != nil {
				return err
			}
			n = t.Fence
		}
		fences[target] = n
	}
	c, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { c.Fences = fences; return nil })
	if err != nil {
		return err
	}
	if err := v.announce(ctx, c); err != nil {
		return err
	}
	for _, target := range c.Targets {
		withheld, err := v.Fence.Drop(ctx, target, c.Fences[target])
		if err != nil {
			return err
		}
		if withheld != "" && !overrides(c, GateFence) {
			return v.cancel(ctx, c, now, "late writes to %s cannot be rejected: %s", target, withheld)
		}
	}
	if c.Rehearse {
		v.forgetCanaries(ctx, c)
	} else if late, err := v.lastLook(ctx, c); err != nil || late != "" {
		if err == nil {
			err = v.cancel(ctx, c, now, "%s", late)
		}
		return err
	}
	if err := v.sameCluster(ctx); err != nil {
		return err
	}
	if now, known := v.now(ctx, c, false); known {
		return v.advance(ctx, c, now, func(c *checkpoint.Cutover) { c.FencedAt = now })
	}
	return errors.New("the source's answer has no time")
}

// announce has all witnesses name the numbers that were raised, before the former ones are dropped: an
// application that writes under those would be refused.
func (v *drive) announce(ctx context.Context, c checkpoint.Cutover) error {
	if v.Announce == nil {
		return nil
	}
	for _, source := range c.Tables {
		for _, target := range c.Targets {
			if err := v.Announce(ctx, source, target); err != nil {
				return err
			}
		}
	}
	return nil
}

// lastLook asks once more, now that nobody writes, what was asked before the freeze: late is what has
// come since, in the streams or among what could not be stored.
func (v *drive) lastLook(ctx context.Context, c checkpoint.Cutover) (late string, err error) {
	if v.watching.since != c.Attempt {
		v.watching = watching{since: c.Attempt, reads: map[string]*watchedShard{}}
	}
	for _, source := range c.Tables {
		strays, err := v.look(ctx, c, source)
		if len(strays) > 0 {
			if _, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { noteStrays(c, strays, "writes after the freeze"); return nil }); err != nil {
				v.reads = map[string]*watchedShard{} // what could not be noted is read again
				return "", err
			}
			return stillWrites(strays[0]), nil
		}
		if err != nil {
			return "", err
		}
		if late, err := v.parkedSince(ctx, c, source); err != nil || late != "" {
			return late, err
		}
	}
	return "", nil
}

func overrides(c checkpoint.Cutover, gate string) bool {
	for _, o := range c.Overrides {
		if o.Gate == gate {
			return true
		}
	}
	return false
}
