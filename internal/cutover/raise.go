package cutover

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// targetsAtOnce is the maximum number of target tables for which the fence is changed concurrently.
const targetsAtOnce = 100

// raised reports whether the fence was raised for this attempt in every target.
func raised(c checkpoint.Cutover) bool {
	for _, target := range c.Targets {
		if _, known := c.Raised[target]; !known {
			return false
		}
	}
	return true
}

// raise publishes a new number for each target before the freeze, and drops the lower numbers. It
// handles all targets concurrently, and returns when the drops are in force. From then on, Bigtable
// executes only requests with these numbers. Every process that may send such a request has a
// record (checkpoint.Writer). So the freeze does not have to wait for a drop.
func (v *drive) raise(ctx context.Context, c checkpoint.Cutover) error {
	done, failed := eachTarget(ctx, c, func(ctx context.Context, target string) (uint64, error) {
		if n, known := c.Raised[target]; known {
			return n, nil
		}
		return v.raiseOne(ctx, c, target)
	})
	risen := maps.Clone(done)
	maps.DeleteFunc(risen, func(target string, n uint64) bool { return n == 0 || c.Raised[target] > 0 })
	if len(risen) > 0 {
		withheld, err := v.Fence.DropAll(ctx, risen)
		failed = errors.Join(failed, err)
		for target := range risen {
			if reason, dropped := withheld[target]; !dropped {
				delete(done, target) // the next pass raises it again
			} else if reason != "" {
				done[target] = 0
			}
		}
	}
	_, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { c.Raised = done; return nil })
	return errors.Join(failed, err)
}

// raiseOne publishes a new number for one target. It returns 0 if the fence is withheld. The gate
// `fence` decides whether the attempt ends then.
func (v *drive) raiseOne(ctx context.Context, c checkpoint.Cutover, target string) (uint64, error) {
	// This must come before the number is published. Processes of older versions keep no record,
	// and must not use the number.
	_, err := v.Ledger.UpdateTarget(ctx, target, func(t *checkpoint.Target) error { t.Recorded = true; return nil })
	if err != nil {
		return 0, err
	}
	// If an earlier pass could not announce its number, the witness rows still have a number that
	// this raise drops.
	if err := v.announce(ctx, c, target); err != nil {
		return 0, err
	}
	t, err := v.Fence.Raise(ctx, target)
	if err != nil || t.Withheld != "" {
		return 0, err
	}
	return t.Fence, v.announce(ctx, c, target)
}

// forgetDoubts reports whether a request with a raised number was never answered. In that case, the
// next pass raises another number and drops this one. Bigtable then no longer executes the request.
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

// announce writes the raised number into the witness rows of a target. It must come before lower
// numbers are dropped. Otherwise the writes of an application that still uses a lower number would
// be rejected.
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

// drop drops all numbers that processes may have used, so that Bigtable executes none of their
// requests any more. The tables are halted, so no process can acquire a right with a later number.
// It returns when the drops are in force. If a target has no fence, `withheld` is the reason.
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
	// This must be recorded before the first drop, so that a cancel raises higher numbers.
	if !maps.Equal(first, c.Fences) {
		if _, err := v.Ledger.InStep(ctx, c, func(c *checkpoint.Cutover) error { c.Fences = first; return nil }); err != nil {
			return "", err
		}
	}
	reasons, failed := v.Fence.DropAll(ctx, first)
	for _, target := range c.Targets {
		if reasons[target] != "" {
			return fmt.Sprintf("late writes to %s cannot be rejected: %s", target, reasons[target]), failed
		}
	}
	return "", failed
}

// eachTarget calls f for all targets concurrently. It returns the results of the calls that
// succeeded, and the errors of the others.
func eachTarget[T any](ctx context.Context, c checkpoint.Cutover, f func(ctx context.Context, target string) (T, error)) (map[string]T, error) {
	results, errs := make([]T, len(c.Targets)), make([]error, len(c.Targets))
	g := task.NewGroup(ctx, targetsAtOnce)
	for i, target := range c.Targets {
		g.Go("fence of "+target, func(ctx context.Context) error {
			results[i], errs[i] = f(ctx, target)
			return nil // the calls for other targets continue
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
