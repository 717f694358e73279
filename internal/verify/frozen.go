package verify

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// CompareFrozen compares all items and rows of a table in this process, without parts in the
// ledger. Nothing may write either side meanwhile, so the second check of a row (V1) follows
// immediately. Bytes is the approximate size of the source, and key that of the sums. A read that
// fails is not retried.
func CompareFrozen(ctx context.Context, o Options, state checkpoint.TableState, bytes int64, key []byte) (verify.Result, error) {
	v := o.verifier(func(error) {})
	c := v.comparison(engine.Until(ctx), state, verify.Scope{})
	c.Applied, c.Unapplied, c.Settle, c.Retry, c.Pace = nil, nil, 0, nil, nil
	plan, err := c.NewPlan(ctx, verify.Quiet, "writes are frozen", bytes, key)
	if err != nil {
		return verify.Result{}, err
	}
	return c.Compare(ctx, plan, mostLooks)
}
