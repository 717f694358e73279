package stream

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A coordinator describes its table in each complete pass. In between it glances: it describes the table
// to see whether it exists, and does nothing else with the answer, so that a drop is known within
// seconds.

const (
	// glanceEvery is the time between two descriptions of a table, and the least time between two
	// complete passes.
	glanceEvery = 10 * time.Second
	// glancePace is the time between two glances of all workers: with more than a hundred tables
	// each of them waits longer. All clients of an account share its quota of descriptions, and
	// with a thousand tables the end of the stream still shows a drop as soon.
	glancePace = 100 * time.Millisecond
)

// glanceAfter is how long after the last description a table is described again, among so many.
func glanceAfter(tables int) time.Duration {
	return max(glanceEvery, time.Duration(tables)*glancePace)
}

// glance makes a complete pass due if the table was dropped since the last one, or exists again. A
// failure is not reported here: the next complete pass repeats the call, and reports what fails.
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
