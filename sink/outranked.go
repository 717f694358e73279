package sink

import (
	"context"
	"fmt"

	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// An application may rank its writes by a number in the item (transform.Rank). This number takes
// precedence over the position in the stream. A number may start again at a lower value. For
// example, an item is removed and recreated by a server whose clock is behind. Then the row refuses
// the stream's newer record, because the older record has a higher number. The row would stay wrong
// permanently (H87). The service does not say which version refused a request, so the row's version
// is read once after a refusal.
//
// If the row has refused a later change because of a higher number, the position in the stream
// decides. The change is written at the number of the row and at its own position, which is later.
// So no version falls (S1). Late attempts of the item's earlier changes are still refused. An
// earlier change may have been raised to another number. The row refuses it, because the row has
// already held that number.

// outranked returns the version that a row holds after it refused a mutation. It returns "" if the
// mutation has no rank.
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

// overtaken reports whether the application's own write outranked a change of the stream. Then the
// row holds a higher number that the application wrote and no record has confirmed yet. An image
// that a load read is not a change.
func overtaken(refused, held transform.Version) bool {
	return refused.Ordered() && held.Ordered() && held.ByApplication() && refused.Hop() != transform.LoadHop && refused.Rank().Below(held.Rank())
}

// raised returns the version at which a row takes a change that it refused because of a higher
// number at an earlier position. It returns "" if the change must not be written. Removes are
// raised too. Otherwise a late put of the removed item that was raised would win.
//
// A generation may read changes again that an earlier generation has applied. So the position of a
// change proves nothing about a row of an earlier generation. Such a change is parked, and the row
// keeps its image. Later changes or the load of the generation then correct the row. A load's image
// is later than every row of an earlier generation. It is raised only if the row is the tombstone
// of a removed item. A live row may hold the image's own number. If the image were raised over it,
// changes older than the load would seem later than the load.
func raised(refused, held transform.Version) transform.Version {
	certain := refused.Generation() == held.Generation()
	if refused.Hop() == transform.LoadHop {
		certain = held.Rank().Removed
	}
	if !certain || !Fell(refused, held) {
		return ""
	}
	return held.Rank().At(refused)
}

// judge decides what happens after a row has taken or refused a change. If it returns true, the
// change must be sent again at the version that the row has now. Other changes for which Fell is
// true are parked.
func (w *Writer) judge(b *transform.Batch, row *transform.RowMutation, held transform.Version) (again bool, err error) {
	if !Fell(row.Version, held) {
		return false, nil
	}
	if v := raised(row.Version, held); v != "" {
		row.Version = v
		return true, nil
	}
	if parkedOf(b, row) >= 0 {
		return false, nil
	}
	reason := fmt.Sprintf("the version attribute decreased: the row holds number %s; write the item again with a higher number", held.Rank())
	if w.o.OnBadItem == Stop {
		return false, &BadItem{b.Source, reason}
	}
	b.Parked = append(b.Parked, b.Park(*row, reason))
	return false, nil
}
