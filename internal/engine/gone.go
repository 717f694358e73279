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

// GoneReason is the reason for the suspension of a table that no longer exists.
const GoneReason = standing.Gone

// LookedAfter is how long workers keep handling a dropped table: its stream can be read for half of
// that time, and clocks differ.
const LookedAfter = 2 * cdc.Retention

// Suspend records in the ledger that a table cannot be followed, once for each reason.
func Suspend(ctx context.Context, ledger *checkpoint.Ledger, events Events, source, reason string) error {
	now := ledger.ServiceTime(ctx)
	if now.IsZero() {
		now = task.Now(ctx).UTC() // no answer came yet; this time only informs people
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

// Gone reports whether a table was dropped or is about to be, from its description or the lack of
// one.
func Gone(d backfill.Description, err error) bool {
	return cdc.Is(err, cdc.NotFound) || err == nil && d.Status == "DELETING"
}
