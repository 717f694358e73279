package sink

import (
	"context"
	"fmt"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Where the application ranks its writes by a number of the item's (transform.Rank), the number comes
// before the place in the stream. If the application lets it fall, as when an item is created anew
// and counted from 1, the stream's newer record is refused for the older one's higher number, and
// the row would be wrong for ever (H87). The service does not say who refused a request, so the
// row's version is read once after a refusal.

// outranked is the version that a row holds after it refused a mutation; "" if the mutation has no rank, or is a remove and the
// row a tombstone.
func (w *Writer) outranked(ctx context.Context, m *transform.RowMutation) (transform.Version, error) {
	if !m.Version.Ordered() {
		return "", nil
	}
	ctx, cancel := task.WithTimeout(ctx, w.o.Timeout)
	defer cancel()
	at := *m
	at.Families, at.Columns = nil, nil // its version is all that is asked for
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

// Fell reports whether a row refuses a change although it is the later one: it holds a higher number
// at an earlier position. The application's own writes have no position: their record follows. So it
// does behind an image that a load read, which is as new as records with a higher position.
func Fell(refused, held transform.Version) bool {
	if !refused.Ordered() || !held.Ordered() || held.ByApplication() || !refused.Rank().Below(held.Rank()) {
		return false
	}
	if held.Hop() == transform.LoadHop && refused.Hop() != transform.LoadHop && !held.Rank().Removed {
		return false
	}
	return held.Position() < refused.Position()
}

// overtaken reports whether the application won a row against a change of the stream: it holds a
// higher number, which the application wrote and no record has confirmed yet. What a load reads is
// no change.
func overtaken(refused, held transform.Version) bool {
	return refused.Ordered() && held.Ordered() && held.ByApplication() && refused.Hop() != transform.LoadHop && refused.Rank().Below(held.Rank())
}

// fell parks a change that its row refuses for a higher number of an older one.
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
