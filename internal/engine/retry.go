package engine

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// The waits between attempts. There is no last attempt: after an outage of hours the next attempt
// succeeds. Lag and headroom show the effect of the outage and alarm long before changes are lost.
const (
	firstWait = 100 * time.Millisecond
	longWait  = 30 * time.Second
)

// Retrier retries the steps of a table's work.
type Retrier struct {
	Source string // the table
	Events Events
	Waits  waits
	now    func(ctx context.Context) time.Time // the service's clock; nil: this process's
}

// Retry repeats an outer step until it succeeds, its life ends, or it fails in a way that no retry
// fixes. It is the only place that backs off. The packages below return typed errors and try once,
// and the AWS SDK makes one attempt, so attempts do not multiply. Once a drain has begun, a failure
// is final, except for steps that run under life.Finishing. The end of drain or work also ends a
// wait, because a worker that lost a lease looks for the next one immediately.
func (r *Retrier) Retry(life Lifecycle, step string, f func(ctx context.Context) error) error {
	ctx := life.Work
	var policy *backoff.ExponentialBackOff
	var source silence
	note := &diary{tell: life.Note, step: step}
	defer note.close()
	for {
		err := f(ctx)
		if err == nil || ctx.Err() != nil || life.Draining() || !Repeatable(err) {
			return err
		}
		if yield := source.yield(life, err); yield != nil {
			return yield
		}
		if policy == nil {
			policy = newPolicy(ctx)
		}
		// Half to one and a half times the policy's wait, so that workers that failed together do
		// not retry together.
		wait := time.Duration(float64(policy.NextBackOff()) * (0.5 + task.Rand(ctx)))
		r.Events.Retry(r.Source, step, wait, err)
		note.write(ctx, err)
		if limit, yes := limitOf(err); yes {
			r.Throttled(ctx, limit, wait)
		}
		if life.Rest(wait) != nil {
			return err
		}
	}
}

// newPolicy returns an exponential policy on the runtime's clock, without randomness of its own.
func newPolicy(ctx context.Context) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstWait),
		backoff.WithMaxInterval(longWait),
		backoff.WithRandomizationFactor(0),
		backoff.WithMaxElapsedTime(0), // never stop: the library's default is 15 minutes
		backoff.WithClockProvider(clock{ctx}),
	)
}

type clock struct{ ctx context.Context }

func (c clock) Now() time.Time { return task.Now(c.ctx) }

// Repeatable reports whether the same step may succeed later.
func Repeatable(err error) bool {
	if Fatal(err) || IsAny(err, checkpoint.ErrLeaseLost, checkpoint.ErrTaken, sink.ErrFenced, ErrStopped, backfill.ErrDrained, ErrGone, ErrPutBack, ErrYield) {
		return false
	}
	var read *cdc.Error
	if errors.As(err, &read) {
		// Trimmed or missing changes stay so. All other errors may pass, including denied
		// credentials and a malformed record. An operator fixes the first, a newer version reads
		// the second, and to skip the record would lose it.
		return read.Reason != cdc.Trimmed && read.Reason != cdc.NotFound
	}
	var write *sink.Error
	if errors.As(err, &write) {
		// The target accepts a rejected request once an operator has recreated the table or family.
		// Until then the lease shows why the work makes no progress. A lease that is released and
		// acquired again would not show it (H50).
		return write.Reason != sink.Rejected
	}
	return true
}

// ErrStopped ends a listing when the process is asked to stop.
var ErrStopped = errors.New("asked to stop")
