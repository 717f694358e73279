package cutover

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// If the application also writes the target, a worker writes the image of each change a second
// time. It waits until the application's own write for that change can no longer be in flight. The
// hook that freezes the application may promise that all of these writes have ended. Then the
// workers need not wait.
//
// The promise covers the changes up to the time at which the application was frozen. It never
// covers changes that the application makes after a cancel, because their writes may be in flight.
// Removals by TTL also happen while the application is frozen, and the application writes nothing
// for them. So the driver extends the promise for them, as long as the application certainly stays
// frozen.

// precision is how far the times of two changes may be off. They are rounded down to seconds, and
// servers' clocks differ slightly.
const precision = 2 * time.Second

// quieten passes the application's promise to the workers. The application certainly was frozen at
// the time `to`.
func (v *drive) quieten(ctx context.Context, c checkpoint.Cutover, to time.Time) error {
	err := v.updateTables(ctx, c, func(s *checkpoint.TableState) error {
		s.Quieten(checkpoint.Quiet{At: c.FrozenAt, To: to})
		return nil
	})
	if err != nil {
		return err
	}
	v.quietTo = to
	return nil
}

// stayQuiet extends the promise for removals by TTL. The time `now` must not be later than this
// call.
func (v *drive) stayQuiet(ctx context.Context, c checkpoint.Cutover, now time.Time) error {
	to := now.Add(-precision)
	if !c.Quiet || to.Before(c.FrozenAt) || to.Before(v.quietTo.Add(time.Second)) || !now.Before(c.Deadline) {
		return nil
	}
	if err := v.stillWanted(ctx, c); err != nil { // a cancel has begun, so the application may write again
		return err
	}
	return v.quieten(ctx, c, to)
}

// tooSoon reports whether the application must stay frozen for a moment. Otherwise, a change after
// the freeze could have the same time as the promise, and the workers would take it for an earlier
// change.
func (v *drive) tooSoon(ctx context.Context, c checkpoint.Cutover) bool {
	if !c.Quiet || task.Mono(v.held.Context())-v.stepped > precision {
		return false
	}
	now, known := v.now(ctx, c, false)
	return !known || !now.After(c.FrozenAt.Add(precision))
}
