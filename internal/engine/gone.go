package engine

import (
	"context"
	"errors"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// GoneReason is the reason with which a table that no longer exists is suspended.
const GoneReason = standing.Gone

// LookedAfter is how long workers keep handling a dropped table. It is twice the stream's
// retention. The second half is a margin for clocks that differ.
const LookedAfter = 2 * cdc.Retention

// Suspend records in the ledger that a table cannot be replicated. It writes only if the reason is
// new.
func Suspend(ctx context.Context, ledger *checkpoint.Ledger, events Events, source, reason string) error {
	now := ledger.ServiceTime(ctx)
	if now.IsZero() {
		// No answer has shown the service's time yet, so this process's clock is used. The time is
		// only for display.
		now = task.Now(ctx).UTC()
	}
	told := true
	_, err := ledger.UpdateTable(ctx, source, func(s *checkpoint.TableState) error {
		told = s.Suspended.Reason == reason
		if !told {
			s.Suspended = checkpoint.Suspension{Since: now, Reason: reason}
		}
		return nil
	})
	if err == nil && !told {
		events.Suspended(source, reason)
	}
	return err
}

var ErrGone = errors.New("the table no longer exists")

// Gone reports whether a table was dropped or is being dropped. It takes the answer of
// DescribeTable, or its error.
func Gone(d backfill.Description, err error) bool {
	return cdc.Is(err, cdc.NotFound) || err == nil && d.Status == "DELETING"
}
