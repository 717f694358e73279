package sink

import (
	"context"
	"fmt"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Where the application ranks its writes by a number in the item (transform.Rank), the number takes
// precedence over the position in the stream. The application may lower it, for example when it
// recreates an item and counts from 1. Then the row refuses the stream's newer record because of
// the older one's higher number, and would be wrong permanently (H87). The service does not say
// which version refused a request, so the row's version is read once after a refusal.

// outranked returns the version that a row holds after it refused a mutation. It returns "" if the
// mutation has no rank, or if it is a remove and the row is a tombstone.
func (w *Writer) outranked(ctx context.Context, m *transform.RowMutation) (transform.Version, error) {
	if !m.Version.Ordered() {
		return "", nil
	}
	ctx, cancel := task.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	at := *m
	at.Families, at.Columns = nil, nil // only the row's version is needed
	row, err := w.o.Rows.Look(ctx, &at, 0)
	if err != nil {
		return "", asError(err)
	}
	live, gone, _ := row.Versions(m.Owner)
	if m.Remove && gone > live {
		return "", nil
	}
	return max(live, gone), nil
}

// Fell reports whether a row refuses a change although the change is later: the row holds a higher
// number at an earlier position. It returns false if the application wrote the row, because such a
// write has no position and its record follows. It also returns false if a load wrote the row,
// because the load's image may be as new as records with higher positions.
func Fell(refused, held transform.Version) bool {
	if !refused.Ordered() || !held.Ordered() || held.ByApplication() || !refused.Rank().Below(held.Rank()) {
		return false
	}
	if held.Hop() == transform.LoadHop && refused.Hop() != transform.LoadHop && !held.Rank().Removed {
		return false
	}
	return held.Position() < refused.Position()
}

// overtaken reports whether the application's own write outranked a change of the stream: the row
// holds a higher number that the application wrote and no record has confirmed yet. An image that a
// load read is not a change.
func overtaken(refused, held transform.Version) bool {
	return refused.Ordered() && held.Ordered() && held.ByApplication() && refused.Hop() != transform.LoadHop && refused.Rank().Below(held.Rank())
}

// fell parks a change that its row refuses because of an older change's higher number.
func (w *Writer) fell(b *transform.Batch, row *transform.RowMutation, held transform.Version) error {
	if !Fell(row.Version, held) || parkedOf(b, row) >= 0 {
		return nil
	}
	reason := fmt.Sprintf("the version attribute fell: the row holds number %s; write the item again with a higher number", held.Rank())
	if w.o.OnBadItem == Stop {
		return &BadItem{b.Source, reason}
	}
	b.Parked = append(b.Parked, b.Park(*row, reason))
	return nil
}
