package preflight

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// The waits between two attempts of a probe. About seven attempts fit into ProbeTime.
const (
	firstWait = 100 * time.Millisecond
	longWait  = time.Second
)

// repeat calls ask until it succeeds or fails permanently, or until ctx ends. The function `helps`
// reports whether a retry may help. Without retries, a short failure would prevent a start. repeat
// returns the last error. If the end of ctx interrupts an attempt, it returns the error of the
// attempt before. So "throttled" is not reported as "no answer".
func repeat(ctx context.Context, helps func(error) bool, ask func(ctx context.Context) error) error {
	policy := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstWait),
		backoff.WithMaxInterval(longWait),
		backoff.WithRandomizationFactor(0), // no jitter here, because task.Rand adds it
		backoff.WithMaxElapsedTime(0),      // no limit, because ctx ends the retries
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

// AskSource sends a request to DynamoDB, and retries temporary failures for ProbeTime. A single
// attempt is limited only by ctx.
func AskSource[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	return askWithin(ctx, mayPassAtAWS, ask)
}

// AskTarget sends a request to Bigtable or Pub/Sub, and retries temporary failures for ProbeTime.
func AskTarget[T any](ctx context.Context, ask func(context.Context) (T, error)) (T, error) {
	return askWithin(ctx, mayPass, ask)
}

// askWithin sends a request. It retries the request for ProbeTime if `helps` reports that the
// failure is temporary. An attempt that began within ProbeTime may last until ctx ends.
func askWithin[T any](ctx context.Context, helps func(error) bool, ask func(context.Context) (T, error)) (answer T, err error) {
	began := task.Mono(ctx)
	inTime := func(err error) bool { return helps(err) && task.Mono(ctx)-began < ProbeTime }
	err = repeat(ctx, inTime, func(ctx context.Context) (err error) {
		answer, err = ask(ctx)
		return err
	})
	return answer, err
}
