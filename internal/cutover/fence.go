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
	if !raised(c) { // by a driver that did not raise before the freeze
		return v.raise(ctx, c)
	}
	if !c.Rehearse { // in a rehearsal the tables are not halted, and their writers go on under the number
		withheld, err := v.drop(ctx, c)
		if err != nil {
			return err
		}
		if withheld != "" && !overrides(c, GateFence) {
			return v.cancel(ctx, c, now, "%s", withheld)
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
