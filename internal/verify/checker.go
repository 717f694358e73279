package verify

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// OfRows returns a comparison for single rows of a table, in this process and without parts in the
// ledger. Like a verify, it waits for changes in flight. If Options.Open is set, it works without a
// worker. It has no limits and no retries. The caller may set Retry and Pace.
func OfRows(ctx context.Context, o Options, state checkpoint.TableState) *verify.Comparison {
	v := o.verifier(func(error) {})
	v.settings.patience = o.Patience
	c := v.comparison(engine.Until(ctx), state, verify.Scope{})
	c.Retry, c.Pace = nil, nil
	return c
}
