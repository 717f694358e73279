package engine

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

// AppliedSlack is by how much the source's clock may be ahead of what was heard of it.
const AppliedSlack = 2 * time.Second

// endless is after every change of a stream that has ended.
var endless = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// AppliedTo is the time up to which everything that was committed is applied, by the table's shards;
// zero if nothing says so. In mode topic that is what appliers have applied without a hole, not what
// is published.
func (c *Common) AppliedTo(ctx context.Context) (time.Time, error) {
	state, _, err := c.Ledger.Table(ctx, c.Source)
	if err != nil {
		return time.Time{}, err
	}
	if state.StreamEnded {
		return endless, nil // nothing more comes
	}
	listings, err := c.Ledger.Listings(ctx, c.Source, state.Label)
	if err != nil {
		return time.Time{}, err
	}
	shards, err := c.Ledger.Shards(ctx, c.Source)
	if err != nil {
		return time.Time{}, err
	}
	at := standing.AppliedTo(state, shards, listings)
	if state.Apply == checkpoint.Topic {
		merged, err := c.Ledger.Merged(ctx, c.Source)
		if err != nil {
			return time.Time{}, err
		}
		for _, s := range checkpoint.Unapplied(state, shards, merged) {
			if through := s.AppliedPrefix(merged); through.Before(at) {
				at = through
			}
		}
	}
	return at.Add(-AppliedSlack), nil
}
