package cutover

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// request waits until the requested cutover is approved, its hours have come, and its gates are
// ready.
func (v *drive) request(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	if c.Expired(now) {
		if c.Trying() {
			return v.cancel(ctx, c, now, "it expired before its next try: %s", c.Reasons())
		}
		return v.cancel(ctx, c, now, "it expired before it was approved and ready")
	}
	if !c.Due(now) {
		return nil
	}
	if why, err := v.rival(ctx, c); err != nil || why != "" {
		return errors.Join(err, v.end(ctx, c, now, ending{why: why}))
	}
	if c.AwaitsGates() {
		gates, err := v.Gates(ctx, c.CutoverPlan, now)
		if err != nil {
			return err
		}
		if open := readiness.Open(gates); len(open) > 0 {
			return v.trouble(ctx, c, "waiting for gate %s of table %s: %s", open[0].Name, open[0].Table, "not ready")
		}
	}
	return v.advance(ctx, c, now, nil)
}

func (v *drive) checks(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	l, err := v.survey(ctx, c, now)
	switch {
	case err != nil:
		return err
	case l.ends != "", l.closed != "" && !c.AwaitsGates():
		return v.cancel(ctx, c, now, "%s", l.why())
	case l.closed != "":
		if err := v.approach(ctx, c, 0); err != nil {
			return err
		}
		_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { return c.Await(now, l.closed) })
		return err
	}
	if err := v.near(ctx, c); err != nil {
		return err
	}
	switch {
	case !raised(c):
		return v.raise(ctx, c) // the raise takes a while, so the next pass checks the gates again
	case !l.next.IsZero():
		_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { return c.AwaitMoment(now, l.next, l.waits) })
		return err
	case len(l.search) > 0:
		if err := v.writeCandidates(ctx, c, l.search); err != nil {
			return errors.Join(err, ignoreMoved(v.trouble(ctx, c, "canaries cannot be written: %v", err)))
		}
		if l.brief {
			return nil
		}
		return v.trouble(ctx, c, "%s", l.waits)
	case l.brief:
		return nil
	case l.waits != "":
		return v.trouble(ctx, c, "%s", l.waits)
	case c.WaitsTooLong(now): // the operator may no longer be there to watch a freeze
		_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error {
			return c.AwaitMoment(now, now, "the moment came so late that an operator may no longer be watching")
		})
		return err
	case c.Rehearse && c.ByPolicy && c.Denial.Rehearsed != c.Attempt:
		_, err := v.deny(ctx, c, v.settings.Call, v.denial(c).Rehearse)
		return err
	}
	wait, err := v.standBy(ctx, c)
	if err != nil {
		return errors.Join(err, ignoreMoved(v.trouble(ctx, c, "the way back cannot be prepared: %v", err)))
	}
	return v.advance(ctx, c, now, func(c *checkpoint.Cutover) {
		c.WayBack = wantsWayBack(c.CutoverPlan)
		c.Gates, c.Verified, c.Parked, c.Unmapped = l.gates, l.known.verified, l.known.parked, l.known.unmapped
		c.Uncovered = l.uncovered
		if wait > 0 {
			c.PolicyWait = wait // a change of a policy has the same signature
		}
	})
}

// near asks the workers to read the shards often from now on. The workers do so until the canaries
// are removed, so near also records that canaries may exist.
func (v *drive) near(ctx context.Context, c checkpoint.Cutover) error {
	if err := v.noteCanaries(ctx, c, nil); err != nil {
		return err
	}
	return v.approach(ctx, c, c.Attempt)
}

// approach records in all tables which attempt is about to freeze the application's writes. The
// number 0 means none.
func (v *drive) approach(ctx context.Context, c checkpoint.Cutover, attempt uint32) error {
	return v.updateTables(ctx, c, func(s *checkpoint.TableState) error { return s.Approach(attempt) })
}

// eachTable calls f for all tables concurrently, and returns the first error. The argument i is the
// table's index.
func eachTable(ctx context.Context, c checkpoint.Cutover, does string, f func(ctx context.Context, i int, source string) error) error {
	g := task.NewGroup(ctx, tablesAtOnce)
	for i, source := range c.Tables {
		g.Go(does+" "+source, func(ctx context.Context) error { return f(ctx, i, source) })
	}
	return g.Wait()
}

// updateTables makes the same change to the records of all tables.
func (v *drive) updateTables(ctx context.Context, c checkpoint.Cutover, change func(s *checkpoint.TableState) error) error {
	return eachTable(ctx, c, "update", func(ctx context.Context, _ int, source string) error {
		_, err := v.Ledger.UpdateTable(ctx, source, change)
		return err
	})
}

// updateTargets makes the same change to the records of all target tables.
func (v *drive) updateTargets(ctx context.Context, c checkpoint.Cutover, change func(t *checkpoint.Target) error) error {
	_, err := eachTarget(ctx, c, func(ctx context.Context, target string) (checkpoint.Target, error) {
		return v.Ledger.UpdateTarget(ctx, target, change)
	})
	return err
}

// mostParked is the maximum number of parked items that the cutover's record lists, by their
// hashes.
const mostParked = 2000

// knownLosses holds facts about the tables at the end of the checks: the last full verify, the
// parked items, and the items that cannot be mapped.
type knownLosses struct {
	verified map[string]checkpoint.VerifyResult
	parked   map[string][]string
	unmapped map[string]int64
}

func (k knownLosses) parkedItems() (n int) {
	for _, items := range k.parked {
		n += len(items)
	}
	return n
}

// known reads the losses that the gates have accepted.
func (v *drive) known(ctx context.Context, c checkpoint.Cutover) (knownLosses, error) {
	states, parked := make([]checkpoint.TableState, len(c.Tables)), make([][]string, len(c.Tables))
	err := eachTable(ctx, c, "read the losses of", func(ctx context.Context, i int, source string) (err error) {
		if states[i], _, err = v.Ledger.Table(ctx, source); err == nil {
			parked[i], err = v.Parked(ctx, source)
		}
		return err
	})
	k := knownLosses{map[string]checkpoint.VerifyResult{}, map[string][]string{}, map[string]int64{}}
	if err != nil {
		return k, err
	}
	for i, source := range c.Tables {
		k.verified[source] = states[i].Verify.Full
		if len(parked[i]) > 0 {
			k.parked[source] = parked[i]
		}
		if n := states[i].Verify.Full.Unmapped; n > 0 {
			k.unmapped[source] = n
		}
	}
	return k, nil
}

// parkedSince describes the items that were parked after the checks. It returns "" if there are
// none.
func (v *drive) parkedSince(ctx context.Context, c checkpoint.Cutover, source string) (string, error) {
	items, err := v.Parked(ctx, source)
	if err != nil {
		return "", err
	}
	n := 0
	for _, item := range items {
		if !slices.Contains(c.Parked[source], item) {
			n++
		}
	}
	if n == 0 {
		return "", nil
	}
	return fmt.Sprintf("table %s: items were parked after the checks: %d", source, n), nil
}

// probeCanaries writes one canary to each source table and removes it. If a source does not accept
// canaries, the attempt must end before the freeze, because the drain would fail. The probe's
// canary carries round 0, so it can prove nothing in a drain.
func (v *drive) probeCanaries(ctx context.Context, c checkpoint.Cutover) error {
	first := map[string]int{}
	for _, source := range c.Tables {
		first[source] = 1
	}
	if err := v.noteCanaries(ctx, c, first); err != nil {
		return err
	}
	g := task.NewGroup(ctx, tablesAtOnce)
	for _, source := range c.Tables {
		set := v.canaries(source)
		g.Go("try a canary of "+source, func(ctx context.Context) error {
			d, err := v.Source.Describe(ctx, source)
			if err == nil {
				err = v.Source.Put(ctx, source, set.Item(0, d.PrimaryKey, 0, v.Ledger.Worker()))
			}
			if err == nil {
				err = v.Source.Delete(ctx, source, set.Key(0, d.PrimaryKey))
			}
			if err != nil {
				return fmt.Errorf("table %s: %w", source, err)
			}
			return nil
		})
	}
	return g.Wait()
}
