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

// The waits between attempts. The number of attempts is not limited, so work continues even after
// an outage of hours. Alarms on lag and headroom are raised long before an outage can lose changes.
const (
	firstWait = 100 * time.Millisecond
	longWait  = 30 * time.Second
)

// Retrier retries the steps of a table's work.
type Retrier struct {
	Source string // source table
	Events Events
	Waits  waits
	now    func(ctx context.Context) time.Time // the service's clock; if nil, this process's clock
}

// Retry retries a step until it succeeds, its life ends, or it fails with an error that no retry
// can fix. No other code retries with backoff: other packages make one attempt and return typed
// errors, and the AWS SDK is set to one attempt. So attempts do not multiply. After a drain has
// begun, a failure is final, except for steps that run under life.Finishing. A wait between
// attempts ends as soon as a drain begins or work ends.
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
		// The wait is randomly 0.5 to 1.5 times the policy's wait. So workers that failed at the
		// same time do not retry at the same time.
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
		backoff.WithMaxElapsedTime(0), // never stop; by default, the library stops after 15 minutes
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
		// Changes that are trimmed or missing do not come back. All other errors may be temporary.
		// An operator can fix denied credentials. A newer version may be able to read a malformed
		// record, and skipping the record would lose it.
		return read.Reason != cdc.Trimmed && read.Reason != cdc.NotFound
	}
	var write *sink.Error
	if errors.As(err, &write) {
		// The target accepts a rejected request once an operator has recreated the table or family.
		// Until then the worker keeps its lease, because the lease's row shows why the work makes
		// no progress. A lease that is repeatedly released and acquired would not show the reason
		// (H50).
		return write.Reason != sink.Rejected
	}
	return true
}

// ErrStopped is the error of a listing that ended because the process was asked to stop.
var ErrStopped = errors.New("asked to stop")
