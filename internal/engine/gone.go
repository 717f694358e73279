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

// GoneReason is why a table is suspended that does not exist any more.
const GoneReason = standing.Gone

// LookedAfter is for how long a table that was dropped is looked after still: its stream can be
// read for half of that, and clocks differ.
const LookedAfter = 2 * cdc.Retention

// Suspend notes in the ledger that a table cannot be followed, once for each reason.
func Suspend(ctx context.Context, ledger *checkpoint.Ledger, events Events, source, reason string) error {
	now := ledger.ServiceTime(ctx)
	if now.IsZero() {
		now = task.Now(ctx).UTC() // no answer came yet; it is for people then
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

// Gone tells from a description, or the lack of it, whether a table was dropped or is about to be.
func Gone(d backfill.Description, err error) bool {
	return cdc.Is(err, cdc.NotFound) || err == nil && d.Status == "DELETING"
}
