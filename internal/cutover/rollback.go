package cutover

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A rollback moves the application back to the source. It has the steps of a cutover. Canaries prove
// nothing in this direction, because Bigtable's change stream has no order between rows. So the
// leaders must have settled everything from before the freeze and a minute after it, and the final
// comparison is the proof.

// RollbackGatesOf reads and judges the gates of a rollback of the cutover c.
func (d *Driver) RollbackGatesOf(ctx context.Context, c checkpoint.Cutover, plan checkpoint.CutoverPlan, now time.Time) ([]checkpoint.CutoverGate, error) {
	found, err := d.Ledger.Fallbacks(ctx, c.Tables)
	if err != nil {
		return nil, err
	}
	settings := d.Settings.orDefault()
	gates := readiness.RollbackGates(c, found, settings.Ready, settings.Carried, now)
	readiness.Override(gates, plan)
	return gates, nil
}

func (v *drive) stepBack(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	switch c.Step {
	case checkpoint.CutoverChecks:
		return v.checkBack(ctx, c, now)
	case checkpoint.CutoverFreeze:
		return v.freeze(ctx, c)
	case checkpoint.CutoverDrain:
		return v.drainBack(ctx, c, now)
	case checkpoint.CutoverVerify:
		return v.verifyBack(ctx, c, now)
	case checkpoint.CutoverFence:
		return v.stopLeaders(ctx, c, now)
	case checkpoint.CutoverSwitching:
		return v.switchOver(ctx, c, now)
	case checkpoint.CutoverWatching:
		return v.returnTables(ctx, c, now)
	case checkpoint.CutoverCancelling:
		return v.followAgain(ctx, c, now)
	}
	return nil
}

// moved returns the cutover that the rollback c undoes.
func (v *drive) moved(ctx context.Context, c checkpoint.Cutover) (checkpoint.Cutover, error) {
	forward, err := v.Ledger.Cutover(ctx, c.Row)
	if err == nil && (forward.Rollback == nil || forward.Rollback.Attempt != c.Attempt) {
		err = checkpoint.ErrMoved
	}
	return forward, err
}

func (v *drive) checkBack(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	forward, err := v.moved(ctx, c)
	switch {
	case err != nil:
		return err
	case forward.Denial.Left && v.Freezer == nil: // nothing is frozen yet, so another process may drive
		return errNoFreezer
	}
	gates, err := v.RollbackGatesOf(ctx, forward, c.CutoverPlan, now)
	if err != nil {
		return err
	}
	if open := readiness.Open(gates); len(open) > 0 {
		return v.cancel(ctx, c, now, "gate %s of table %s is not ready: %s", open[0].Name, open[0].Table, open[0].Figure)
	}
	return v.advance(ctx, c, now, func(c *checkpoint.Cutover) { c.Gates = gates })
}

// drainBack waits until every change of the target from before the freeze has reached the source.
func (v *drive) drainBack(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	forward, err := v.moved(ctx, c)
	if err != nil {
		return err
	}
	found, err := v.Ledger.Fallbacks(ctx, c.Tables)
	if err != nil {
		return err
	}
	var proofs []checkpoint.CutoverProof
	for _, f := range found {
		if why := readiness.LostBack(f, forward.Attempt, overrides(c, readiness.GateCarried)); why != "" {
			return v.cancel(ctx, c, now, "table %s: %s", f.Source, why)
		}
		if waits := readiness.DrainedBack(f, c.FrozenAt, now, v.settings.Carried); waits != "" {
			return v.trouble(ctx, c, "table %s: %s", f.Source, waits)
		}
		proofs = append(proofs, checkpoint.CutoverProof{Table: f.Source, Shard: "change stream", How: "every change before this time has reached DynamoDB, and nothing is in doubt", Position: f.Settled.UTC().Format(time.RFC3339)})
	}
	return v.advance(ctx, c, now, func(c *checkpoint.Cutover) { c.Proofs = proofs })
}

// errUncompared is the error of a comparison that did not begin before its time was over.
var errUncompared = errors.New("the table was not compared in time")

// verifyBack compares all rows and items, while the application writes neither side.
func (v *drive) verifyBack(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	if v.finals.of != c.Attempt {
		v.finals = finals{of: c.Attempt, compared: map[string]checkpoint.VerifyResult{}, compares: task.NewLimit(comparesAtOnce)}
	}
	limited, cancel := task.WithTimeout(ctx, v.mayTake(c, now))
	defer cancel()
	results, errs := make([]checkpoint.ReverseResult, len(c.Tables)), make([]error, len(c.Tables))
	g := task.NewGroup(limited, comparesAtOnce)
	for i, source := range c.Tables {
		if _, known := v.compared[source]; known {
			continue
		}
		errs[i] = errUncompared // until the task has run
		g.Go("compare "+source, func(ctx context.Context) error {
			if results[i], errs[i] = v.Verifier.Reverse(ctx, source); errs[i] == nil && !results[i].Known() {
				errs[i] = errUncompared
			}
			return nil // the comparison of the other tables continues
		})
	}
	_ = g.Wait()
	verified := map[string]checkpoint.VerifyResult{}
	for i, source := range c.Tables {
		done, known := v.compared[source]
		switch r := results[i]; {
		case errs[i] != nil:
		case !known && (!r.Clean() || r.Parked > 0 && !overrides(c, readiness.GateCarried)):
			return v.cancel(ctx, c, now, "table %s: %d items differ from their rows, and %d rows cannot be carried", source, r.Differing(), r.Parked)
		case known:
			verified[source] = done
		default:
			verified[source] = checkpoint.VerifyResult{Way: "reverse", BegunAt: r.BeganAt, EndedAt: r.EndedAt,
				VerifyCounts: checkpoint.VerifyCounts{Items: r.Items, Rows: r.Rows, Compared: r.Rows, Unmapped: r.Unmapped, Kept: r.Parked}}
			v.compared[source] = verified[source]
		}
	}
	if failed := errors.Join(errs...); failed != nil {
		return errors.Join(failed, ignoreMoved(v.trouble(ctx, c, "the comparison failed and is repeated: %v", failed)))
	}
	return v.advance(ctx, c, now, func(c *checkpoint.Cutover) { c.Verified = verified })
}

// stopLeaders ends the way back: from then on no request to the source is in flight or in doubt.
// Otherwise a late request could overwrite what the application writes after the switch.
func (v *drive) stopLeaders(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	forward, err := v.moved(ctx, c)
	if err == nil {
		err = v.updateFallbacks(ctx, c.Tables, func(f *checkpoint.Fallback) { f.StopFor(forward.Attempt, c.Attempt) })
	}
	if err != nil {
		return err
	}
	found, err := v.Ledger.Fallbacks(ctx, c.Tables)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(found, func(f checkpoint.Fallback) bool { return f.State == checkpoint.FallbackGap }); i >= 0 {
		return v.cancel(ctx, c, now, "table %s: changes were lost: %s", found[i].Source, found[i].Reason)
	}
	if waits := readiness.StoppedAll(found, now); waits != "" {
		return v.trouble(ctx, c, "%s", waits)
	}
	if waits, err := v.reopen(ctx, c, forward); err != nil || waits != "" {
		return errors.Join(err, ignoreMoved(v.trouble(ctx, c, "%s", waits)))
	}
	// This time must be read after the records, so that it is later than every request.
	now, known := v.now(ctx, c, true)
	if !known {
		return errors.New("the source's answer has no Date header")
	}
	return v.advance(ctx, c, now, func(c *checkpoint.Cutover) { c.GoneAt = now })
}

// returnTables lets the tables replicate again after the switch. Each needs a load.
func (v *drive) returnTables(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	// The numbers that the cutover dropped stay dropped, so the workers need a new one.
	if _, err := eachTarget(ctx, c, v.Fence.Raise); err != nil {
		return err
	}
	if err := v.updateTargets(ctx, c, func(t *checkpoint.Target) error { t.Return(c.Attempt); return nil }); err != nil {
		return err
	}
	err := eachTable(ctx, c, "return", func(ctx context.Context, _ int, source string) error { return v.Ledger.Return(ctx, source, c.Attempt) })
	if err != nil {
		return errors.Join(err, ignoreMoved(v.trouble(ctx, c, "the tables cannot be returned: %v", err)))
	}
	_, err = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { return c.Returned(now) })
	return err
}

// followAgain ends a cancelled rollback. The policies deny writes again, and the leaders follow again,
// before the application may write.
func (v *drive) followAgain(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	forward, err := v.moved(ctx, c)
	if err != nil {
		return err
	}
	if err := v.denyAgain(ctx, c, now); err != nil {
		return err
	}
	if err := v.updateFallbacks(ctx, c.Tables, func(f *checkpoint.Fallback) { f.FollowAfter(forward.Attempt, c.Attempt) }); err != nil {
		return err
	}
	if c.UnfrozenAt.IsZero() {
		outcome, output, err := v.hook(ctx, c, UnfreezeWrites)
		switch {
		case err != nil:
			return err
		case !outcome.Done():
			return v.trouble(ctx, c, "hook %s: %s: the application may still be frozen: %s", UnfreezeWrites, outcome, output)
		}
		if c, err = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { return c.Unfrozen(now) }); err != nil {
			return err
		}
	}
	_, err = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { return c.Cancelled(now) })
	return err
}
