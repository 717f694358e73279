package cutover

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// longestLook bounds how long a command waits to see a driver renew its lease.
const longestLook = 30 * time.Second

// Drives is the process that drives the cutover; "" if none does. Whether it lives shows in its lease
// alone, which it renews three times within the lease's duration. So a watch that has not met the
// lease before looks for half of that; one that has answers at once. Clocks are not compared, except
// for a lease that is too long to wait for.
func Drives(ctx context.Context, ledger *checkpoint.Ledger, watch *checkpoint.Watch) (string, error) {
	lease, err := ledger.CoordinatorLease(ctx, checkpoint.CutoverLease)
	if err != nil || lease.Owner() == "" {
		return "", err
	}
	known := watch.Knows(lease)
	if free := watch.CoordinatorLeaseFree(lease, task.Mono(ctx)); known && free {
		return "", nil
	} else if known {
		return lease.Owner(), nil
	}
	if look := ledger.Lease() / 2; look <= longestLook {
		return renews(ctx, ledger, lease, look)
	}
	if standing.Answers(lease.Heartbeat(), ledger.Now(ctx), ledger.Lease()) {
		return lease.Owner(), nil
	}
	return "", nil
}

// renews is who holds a lease once its row changes; "" if that does not happen for so long. A look
// that is broken off says what is known: somebody holds it.
func renews(ctx context.Context, ledger *checkpoint.Ledger, seen checkpoint.CoordinatorLease, look time.Duration) (string, error) {
	pass := min(time.Second, look/8)
	for end := task.Mono(ctx) + look; task.Mono(ctx) < end; {
		if task.Sleep(ctx, pass) != nil {
			return seen.Owner(), nil
		}
		now, err := ledger.CoordinatorLease(ctx, checkpoint.CutoverLease)
		if err != nil {
			return "", err
		}
		if now.Row.Counter != seen.Row.Counter {
			return now.Owner(), nil
		}
	}
	return "", nil
}
