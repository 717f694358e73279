package preflight

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// The waits between two attempts of a probe. Seven or so fit into ProbeTime.
const (
	firstWait = 100 * time.Millisecond
	longWait  = time.Second
)

// repeat asks until there is an answer that helps does not hold to be passing, or until ctx ends: a
// service that throttles or fails for a moment is no reason to refuse a start. It returns the last
// answer. An attempt that the end of ctx cuts off has none, so that the answer before it counts:
// "throttled" is never told as "no answer".
func repeat(ctx context.Context, helps func(error) bool, ask func(ctx context.Context) error) error {
	policy := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstWait),
		backoff.WithMaxInterval(longWait),
		backoff.WithRandomizationFactor(0), // of its own: task.Rand has it
		backoff.WithMaxElapsedTime(0),      // ctx ends it
	)
	var last error
	for {
		err := ask(ctx)
		if ctx.Err() != nil && err != nil && last != nil {
			return last
		}
		if err == nil || ctx.Err() != nil || !helps(err) {
			return err
		}
		last = err
		wait := time.Duration(float64(policy.NextBackOff()) * (0.5 + task.Rand(ctx)))
		if task.Sleep(ctx, wait) != nil {
			return last
		}
	}
}

// AskSource asks DynamoDB, again for ProbeTime while that may help. The time of an attempt is not
// bounded by it: ctx does that.
func AskSource[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	return askWithin(ctx, mayPassAtAWS, ask)
}

// AskTarget is the same of Bigtable.
func AskTarget[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	return askWithin(ctx, mayPass, ask)
}

// askWithin asks a service, again for ProbeTime while helps holds an answer to be passing. An
// attempt that began in time may take as long as ctx lets it.
func askWithin[T any](ctx context.Context, helps func(error) bool, ask func(context.Context) (T, error)) (answer T, err error) {
	began := task.Mono(ctx)
	inTime := func(err error) bool { return helps(err) && task.Mono(ctx)-began < ProbeTime }
	err = repeat(ctx, inTime, func(ctx context.Context) (err error) {
		answer, err = ask(ctx)
		return err
	})
	return answer, err
}
