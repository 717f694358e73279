package dualwrite

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// The waits between the attempts of an Update.
const (
	firstWait = 20 * time.Millisecond
	longWait  = time.Second
)

// waits grow from attempt to attempt.
type waits struct{ policy *backoff.ExponentialBackOff }

func newWaits(ctx context.Context) waits {
	return waits{backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstWait),
		backoff.WithMaxInterval(longWait),
		backoff.WithRandomizationFactor(0), // the method rest makes the waits random
		backoff.WithMaxElapsedTime(0),
		backoff.WithClockProvider(clock{ctx}),
	)}
}

type clock struct{ ctx context.Context }

func (c clock) Now() time.Time { return task.Now(c.ctx) }

// rest waits for half to one and a half times the policy's wait, so that writers that collided once
// do not collide again. If ctx ends, it returns the cause.
func (w waits) rest(ctx context.Context) error {
	return task.Sleep(ctx, time.Duration(float64(w.policy.NextBackOff())*(0.5+task.Rand(ctx))))
}
