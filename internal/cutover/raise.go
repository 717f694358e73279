package cutover

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// targetsAtOnce bounds the target tables whose fence is changed at the same time.
const targetsAtOnce = 100

// raised reports whether every target has a number of the fence that was raised for this attempt.
func raised(c checkpoint.Cutover) bool {
	for _, target := range c.Targets {
		if _, known := c.Raised[target]; !known {
			return false
		}
	}
	return true
}

// raise publishes a new number for each target before the freeze, all side by side, and drops the
// lower ones. It returns once the drops are in force. From then on only requests under these numbers
// can be executed, and every process that may send one has a record (checkpoint.Writer). While the
// application is frozen nothing has to wait for a drop.
func (v *drive) raise(ctx context.Context, c checkpoint.Cutover) error {
	done, failed := eachTarget(ctx, c, func(ctx context.Context, target string) (uint64, error) {
		if n, known := c.Raised[target]; known {
			return n, nil
		}
		return v.raiseOne(ctx, c, target)
	})
	_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { c.Raised = done; return nil })
	return errors.Join(failed, err)
}

// raiseOne publishes a new number for one target and drops the lower ones. The number is 0 if the
// fence is withheld; the gate says whether that ends the attempt.
func (v *drive) raiseOne(ctx context.Context, c checkpoint.Cutover, target string) (uint64, error) {
	// Before the number is published: processes that keep no record must not read it.
	_, err := v.Ledger.UpdateTarget(ctx, target, func(t *checkpoint.Target) error { t.Recorded = true; return nil })
	if err != nil {
		return 0, err
	}
	t, err := v.Fence.Raise(ctx, target)
	if err != nil || t.Withheld != "" {
		return 0, err
	}
	if err := v.announce(ctx, c, target); err != nil {
		return 0, err
	}
	withheld, err := v.Fence.Drop(ctx, target, t.Fence)
	if err != nil || withheld != "" {
		return 0, err
	}
	return t.Fence, nil
}

// forgetDoubts reports whether a request under a raised number was never answered. Then the next pass
// raises another number and drops this one, so that the request cannot be executed any more.
func (v *drive) forgetDoubts(ctx context.Context, c checkpoint.Cutover) (doubted bool, err error) {
	all, err := v.Ledger.Writers(ctx)
	if err != nil {
		return false, err
	}
	left := maps.Clone(c.Raised)
	for _, w := range all {
		maps.DeleteFunc(left, func(target string, n uint64) bool { return n > 0 && w.Targets[target].Doubt >= n })
	}
	if len(left) == len(c.Raised) {
		return false, nil
	}
	_, err = v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { c.Raised = left; return nil })
	return true, err
}

// announce makes the witnesses in a target name the number that was raised, before the former ones
// are dropped: they would refuse an application that writes under those.
func (v *drive) announce(ctx context.Context, c checkpoint.Cutover, target string) error {
	if v.Announce == nil {
		return nil
	}
	for _, source := range c.Tables {
		if err := v.Announce(ctx, source, target); err != nil {
			return err
		}
	}
	return nil
}

// drop drops every number that processes may have used, so that none of their requests can be
// executed any more. The tables are halted, so no process proves a right under a later number. It
// returns once the drops are in force. Withheld says why a target has no fence.
func (v *drive) drop(ctx context.Context, c checkpoint.Cutover) (withheld string, err error) {
	first, failed := eachTarget(ctx, c, func(ctx context.Context, target string) (uint64, error) {
		if n, known := c.Fences[target]; known {
			return n, nil
		}
		t, _, err := v.Ledger.Target(ctx, target)
		return max(t.Fence, c.Raised[target]) + 1, err
	})
	if failed != nil {
		return "", failed
	}
	if !maps.Equal(first, c.Fences) { // before the first drop: a cancel raises other numbers then
		if _, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { c.Fences = first; return nil }); err != nil {
			return "", err
		}
	}
	reasons, failed := eachTarget(ctx, c, func(ctx context.Context, target string) (string, error) {
		return v.Fence.Drop(ctx, target, first[target])
	})
	for _, target := range c.Targets {
		if reasons[target] != "" {
			return fmt.Sprintf("late writes to %s cannot be rejected: %s", target, reasons[target]), failed
		}
	}
	return "", failed
}

// eachTarget calls f for all targets side by side. It returns the results of the calls that
// succeeded, and the errors of the others.
func eachTarget[T any](ctx context.Context, c checkpoint.Cutover, f func(ctx context.Context, target string) (T, error)) (map[string]T, error) {
	results, errs := make([]T, len(c.Targets)), make([]error, len(c.Targets))
	g := task.NewGroup(ctx, targetsAtOnce)
	for i, target := range c.Targets {
		g.Go("fence of "+target, func(ctx context.Context) error {
			results[i], errs[i] = f(ctx, target)
			return nil // the others continue
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	done := map[string]T{}
	for i, target := range c.Targets {
		if errs[i] == nil {
			done[target] = results[i]
		}
	}
	return done, errors.Join(errs...)
}
