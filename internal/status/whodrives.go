package status

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// longestLook is the longest time for which a command waits to see that the driver renews its
// lease.
const longestLook = 30 * time.Second

// Drives returns the process that drives the cutover of a group; "" if none does. Only renewals of
// its lease show that a driver is alive. A driver renews its lease three times within the lease's
// duration. So a watch that sees the lease for the first time observes it for half that duration. A
// watch that already knows the lease answers at once. If half the duration exceeds longestLook, the
// heartbeat's time is compared with the current time instead.
func Drives(ctx context.Context, ledger *checkpoint.Ledger, row string, watch *checkpoint.Watch) (string, error) {
	lease, err := ledger.CoordinatorLease(ctx, checkpoint.CutoverLease(row))
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
		return renews(ctx, ledger, row, lease, look)
	}
	if standing.Answers(lease.Heartbeat(), ledger.Now(ctx), ledger.Lease()) {
		return lease.Owner(), nil
	}
	return "", nil
}

// renews returns the owner of a lease when the lease's row changes; "" if the row does not change
// within the given time. If ctx ends first, it returns the last known owner.
func renews(ctx context.Context, ledger *checkpoint.Ledger, row string, seen checkpoint.CoordinatorLease, look time.Duration) (string, error) {
	pass := min(time.Second, look/8)
	for end := task.Mono(ctx) + look; task.Mono(ctx) < end; {
		if task.Sleep(ctx, pass) != nil {
			return seen.Owner(), nil
		}
		now, err := ledger.CoordinatorLease(ctx, checkpoint.CutoverLease(row))
		if err != nil {
			return "", err
		}
		if now.Row.Counter != seen.Row.Counter {
			return now.Owner(), nil
		}
	}
	return "", nil
}
