package engine

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Lifecycle determines how long a task runs, and when its retries end.
type Lifecycle struct {
	Drain context.Context // it ends when no new work should begin
	Work  context.Context // it ends when all work must end
	// Yield, if not 0, is how long a step waits for the source to answer. After that time the step
	// ends with ErrYield.
	Yield time.Duration
	// Note, if not nil, is called with the failure of a step that is retried, and with the zero
	// value when the step ends.
	Note func(checkpoint.Trouble)
}

// Until returns a lifecycle whose drain and work end with ctx.
func Until(ctx context.Context) Lifecycle { return Lifecycle{Drain: ctx, Work: ctx} }

// Draining reports whether no new work should begin.
func (l Lifecycle) Draining() bool { return l.Drain.Err() != nil }

// Within returns a copy of the lifecycle whose work ends with the given context, such as the
// context of a lease or of a group of tasks.
func (l Lifecycle) Within(work context.Context) Lifecycle {
	l.Work = work
	return l
}

// Finishing returns a lifecycle for steps that a drain must not interrupt. Only the end of work
// ends such a step.
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

// Rest waits for d. It fails as soon as a drain begins or work ends.
func (l Lifecycle) Rest(d time.Duration) error { return task.SleepWithin(l.Work, l.Drain, d) }
