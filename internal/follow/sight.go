package follow

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

const defaultLagBound = 5 * time.Second

// sight adds to a shard's progress what a cutover needs to know of a durable page: its canaries,
// writes and lag.
func sight(at *checkpoint.Progress, m *transform.Mapping, page cdc.Page, bound time.Duration) {
	known := at.Cutover.Canary
	for _, c := range page.Canaries {
		if attempt, i := canary.Which(c); attempt > 0 {
			at.Cutover.See(attempt, i)
		}
	}
	if at.Cutover.Canary != known {
		at.Cutover.Before = at.Applied
	}
	var last time.Time
	for _, c := range page.Changes {
		if c.Time.After(last) {
			last = c.Time
		}
		if !c.Expired && c.Time.After(at.Cutover.WrittenAt) {
			at.Cutover.WrittenAt, at.Cutover.Written = c.Time, sink.HashOf(m.ItemKey(c.Keys))
		}
	}
	// Change times are rounded down to seconds.
	if !last.IsZero() && !page.At.IsZero() && page.At.Sub(last) > bound+time.Second {
		at.Cutover.BehindAt = page.At
	}
	if len(page.Canaries) > 0 {
		at.CaughtUp = false
	}
}
