package engine

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Lifecycle determines how long a task runs, and when its retries end.
type Lifecycle struct {
	Drain context.Context // ends when no new work should begin
	Work  context.Context // ends when all work must end
	// Yield, if not 0, is how long the source may fail to answer a step before the step ends with
	// ErrYield.
	Yield time.Duration
	// Note, if not nil, gets the failure of a step while it is retried, and the zero value when the
	// step ends.
	Note func(checkpoint.Trouble)
}

// Until returns a lifecycle whose drain and work both end with ctx.
func Until(ctx context.Context) Lifecycle { return Lifecycle{Drain: ctx, Work: ctx} }

// Draining reports whether no new work should begin.
func (l Lifecycle) Draining() bool { return l.Drain.Err() != nil }

// Within returns the same lifecycle with another end of work: the end of a lease, or of a group of
// tasks.
func (l Lifecycle) Within(work context.Context) Lifecycle {
	l.Work = work
	return l
}

// Finishing returns a lifecycle for steps that a drain must not interrupt: only the end of work
// ends them.
func (l Lifecycle) Finishing() Lifecycle {
	l.Drain = l.Work
	return l
}

func (l Lifecycle) Yielding(after time.Duration) Lifecycle {
	l.Yield = after
	return l
}

func (l Lifecycle) Noting(note func(checkpoint.Trouble)) Lifecycle {
	l.Note = note
	return l
}

// Rest waits for d. It fails as soon as either context ends.
func (l Lifecycle) Rest(d time.Duration) error { return task.SleepWithin(l.Work, l.Drain, d) }
