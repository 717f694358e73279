package pipeline

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// lifecycle says how long a task goes on, and what becomes of the steps that it repeats.
type lifecycle struct {
	drain context.Context // ends when no new work should begin
	work  context.Context // ends when what is under way must end
	// yield, if not 0, is how long the source may leave a step unanswered before it ends with ErrYield.
	yield time.Duration
	// note, if not nil, gets the trouble of a step that fails, and the zero value when the step ends.
	note func(checkpoint.Trouble)
}

// until is a lifecycle that one context ends at once.
func until(ctx context.Context) lifecycle { return lifecycle{drain: ctx, work: ctx} }

// draining says whether no new work should begin.
func (l lifecycle) draining() bool { return l.drain.Err() != nil }

// within is the same lifecycle with another end of work: that of a lease, or of a group of tasks.
func (l lifecycle) within(work context.Context) lifecycle {
	l.work = work
	return l
}

// finishing is for steps that a drain must not leave undone: only the end of work ends them.
func (l lifecycle) finishing() lifecycle {
	l.drain = l.work
	return l
}

func (l lifecycle) yielding(after time.Duration) lifecycle {
	l.yield = after
	return l
}

func (l lifecycle) noting(note func(checkpoint.Trouble)) lifecycle {
	l.note = note
	return l
}

// rest waits for d. It fails as soon as either context ends.
func (l lifecycle) rest(d time.Duration) error { return task.SleepWithin(l.work, l.drain, d) }
