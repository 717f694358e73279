package stream

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A coordinator describes its table in each complete pass. Between these passes it glances: it
// describes the table only to check that the table exists. So it notices a drop within seconds.

const (
	// glanceEvery is the time between two descriptions of a table, and the minimum time between two
	// complete passes.
	glanceEvery = 10 * time.Second
	// glancePace is the minimum time between two glances, over all tables and workers. All clients
	// of an account share a quota of DescribeTable. With more than a hundred tables, glances at
	// each table are rarer. A drop is still noticed soon, because the table's stream ends.
	glancePace = 100 * time.Millisecond
)

// glanceAfter returns the time between two descriptions of a table, for the given number of tables.
func glanceAfter(tables int) time.Duration {
	return max(glanceEvery, time.Duration(tables)*glancePace)
}

// glance makes a complete pass due if the table was dropped or recreated since the last pass. It
// does not report a failure, because the next complete pass makes the same call and reports its
// failure.
func (r *Reconciler) glance(ctx context.Context) {
	now := task.Mono(ctx)
	if now-r.described < glanceAfter(r.shares.Followed()) {
		return
	}
	r.described = now
	limited, cancel := task.WithTimeout(ctx, engine.GlanceTime)
	defer cancel()
	d, err := r.database.Describe(limited, r.Source)
	if dropped := engine.Gone(d, err); dropped != r.dropped && (dropped || err == nil) {
		r.soon = true
	}
}
