package engine

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
)

// AppliedSlack is the maximum by which the source's clock may be ahead of its last known time.
const AppliedSlack = 2 * time.Second

// endless is a time after all changes. It is used for a stream that has ended.
var endless = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// AppliedTo returns the time up to which all committed changes of the table's shards are applied,
// or zero if it is unknown. In mode topic, it is the time up to which appliers have applied every
// message, because published changes may not be applied yet.
func (c *Common) AppliedTo(ctx context.Context) (time.Time, error) {
	state, _, err := c.Ledger.Table(ctx, c.Source)
	if err != nil {
		return time.Time{}, err
	}
	if state.StreamEnded {
		return endless, nil // the stream has ended, so no more changes follow
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
