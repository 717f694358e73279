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

// The waits between attempts. There is no last attempt: an outage of hours ends with the first
// attempt after it, and what it cost is told by the lag and the headroom, which alarm long before
// anything is lost.
const (
	firstWait = 100 * time.Millisecond
	longWait  = 30 * time.Second
)

// Retrier repeats the steps of a table's work.
type Retrier struct {
	Source string // the table
	Events Events
	Waits  waits
	now    func(ctx context.Context) time.Time // the service's clock; nil: this process's
}

// Retry repeats an outer step until it succeeds, its life ends, or it fails in a way that no repeat
// mends. It is the one place that backs off: the packages below return typed errors and try once,
// and the AWS SDK is set to one attempt, so that attempts do not multiply. Once a drain has begun a
// failure is final; a step that must be done all the same is life.finishing's. A wait ends with
// either: who has lost a lease looks for the next one at once.
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
		// Half to one and a half times the policy's wait: workers that failed together do not come
		// back together.
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

// newPolicy is an exponential policy on the runtime's clock and without randomness of its own.
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
		// What is trimmed or gone stays so. Everything else may pass, denied credentials and a
		// malformed record included: somebody mends the first, a newer version reads the second,
		// and skipping it would lose it.
		return read.Reason != cdc.Trimmed && read.Reason != cdc.NotFound
	}
	var write *sink.Error
	if errors.As(err, &write) {
		// What the target refuses as a whole it takes again once somebody has made the table or
		// family anew; until then the lease tells why nothing gets on, which one that is given up
		// and taken again does not (H50).
		return write.Reason != sink.Rejected
	}
	return true
}

// ErrStopped ends a listing when the process is asked to stop.
var ErrStopped = errors.New("asked to stop")
