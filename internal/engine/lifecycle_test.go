package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// inBothRuntimes runs a script in virtual time of the simulation, and in plain Go within a bubble.
func inBothRuntimes(t *testing.T, script func(ctx context.Context)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { script(t.Context()) })
	if err := virtual.NewWorld(1, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), false).Run(48*time.Hour, script); err != nil {
		t.Fatal(err)
	}
}

// A backoff ends with its lease, because a worker that lost a lease looks for the next one
// immediately. It also ends with a stop.
func TestABackoffEndsWithItsLease(t *testing.T) {
	lost := errors.New("lease lost")
	for name, ends := range map[string]func(stop, lease context.CancelCauseFunc){
		"lease": func(_, lease context.CancelCauseFunc) { lease(lost) },
		"stop":  func(stop, _ context.CancelCauseFunc) { stop(lost) },
	} {
		inBothRuntimes(t, func(ctx context.Context) {
			stop, halt := context.WithCancelCause(ctx)
			lease, lose := context.WithCancelCause(ctx)
			began := task.Mono(ctx)
			g := task.NewGroup(ctx, 0)
			g.Go("end", func(ctx context.Context) error {
				err := task.Sleep(ctx, 10*time.Minute)
				ends(halt, lose)
				return err
			})
			r := &Retrier{Events: Events{}.OrSilent()}
			err := r.Retry(Lifecycle{Drain: stop, Work: lease}, "read", func(context.Context) error { return &cdc.Error{Op: "Scan", Reason: cdc.Unavailable, Err: lost} })
			if took := task.Mono(ctx) - began; !cdc.Is(err, cdc.Unavailable) || took != 10*time.Minute {
				t.Errorf("%s: it ends after %s with %v", name, took, err)
			}
			_ = g.Wait()
		})
	}
}
