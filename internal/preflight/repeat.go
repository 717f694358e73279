package preflight

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// The waits between two attempts of a probe. About seven fit into ProbeTime.
const (
	firstWait = 100 * time.Millisecond
	longWait  = time.Second
)

// repeat asks until an answer is not a temporary failure according to helps, or until ctx ends. A
// short failure or throttling is no reason to refuse a start. It returns the last answer. If the
// end of ctx interrupts an attempt, the previous answer counts, so "throttled" is never reported as
// "no answer".
func repeat(ctx context.Context, helps func(error) bool, ask func(ctx context.Context) error) error {
	policy := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstWait),
		backoff.WithMaxInterval(longWait),
		backoff.WithRandomizationFactor(0), // none, because task.Rand adds the jitter
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

// AskSource sends a request to DynamoDB, and retries temporary failures for ProbeTime. Only ctx
// bounds a single attempt.
func AskSource[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	return askWithin(ctx, mayPassAtAWS, ask)
}

// AskTarget does the same for Bigtable.
func AskTarget[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	return askWithin(ctx, mayPass, ask)
}

// askWithin sends a request. For ProbeTime it retries failures that are temporary according to
// helps. An attempt that began in time may last until ctx ends.
func askWithin[T any](ctx context.Context, helps func(error) bool, ask func(context.Context) (T, error)) (answer T, err error) {
	began := task.Mono(ctx)
	inTime := func(err error) bool { return helps(err) && task.Mono(ctx)-began < ProbeTime }
	err = repeat(ctx, inTime, func(ctx context.Context) (err error) {
		answer, err = ask(ctx)
		return err
	})
	return answer, err
}
