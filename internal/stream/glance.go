package stream

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A coordinator describes its table in each complete pass. Between these passes it glances: it
// describes the table only to check that it exists, so that a drop is known within seconds.

const (
	// glanceEvery is the time between two descriptions of a table, and the least time between two
	// complete passes.
	glanceEvery = 10 * time.Second
	// glancePace is the time between two glances of all workers: with more than a hundred tables,
	// each table waits longer. All clients of an account share its quota of descriptions. Even with
	// a thousand tables, the end of the stream shows a drop just as soon.
	glancePace = 100 * time.Millisecond
)

// glanceAfter returns how long after the last description a table is described again, given the
// number of tables.
func glanceAfter(tables int) time.Duration {
	return max(glanceEvery, time.Duration(tables)*glancePace)
}

// glance makes a complete pass due if the table was dropped or recreated since the last pass. It
// does not report a failure, because the next complete pass repeats the call and reports it.
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
