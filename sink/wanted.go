package sink

import (
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Wanted returns what the rows of an item should hold. The result has the mutations of the item's
// image, and removes of every other address to which the former images map. The image is empty if
// the source does not hold the item. The mutations' versions have no meaning. An image that cannot
// be mapped is a *BadItem.
func Wanted(m *transform.Mapping, keys attribute.Item, former []attribute.Item, image attribute.Item, readAt time.Time) ([]transform.RowMutation, error) {
	return wanted(m, keys, image, Removals(m, keys, append(slices.Clone(former), image)), readAt)
}

// wanted returns the image's mutations and the removes of other claimed addresses, as a sweep
// writes them. In a row of the image, the other claimed cells are deleted as well.
func wanted(m *transform.Mapping, keys, image attribute.Item, claims []transform.RowMutation, readAt time.Time) ([]transform.RowMutation, error) {
	b := transform.Sweep(m, []transform.Found{{Keys: keys, Image: image}}, claims, 0, readAt)
	if len(b.Parked) > 0 {
		return nil, &BadItem{b.Source, b.Parked[0].Reason}
	}
	return b.Rows, nil
}

// Removals returns the removes of every address to which any image of an item maps. If the primary
// key determines the address, it returns the remove of that address. The row may hold an image that
// is not among the given ones. So each remove deletes everything that the item may have in its row
// under any rule. The versions of these removes have no meaning.
func Removals(m *transform.Mapping, keys attribute.Item, images []attribute.Item) []transform.RowMutation {
	changes := []cdc.Change{{Event: cdc.Remove, Sequence: cdc.SequenceOf(1), Keys: keys}}
	for _, image := range images {
		if image.Exists() {
			changes = append(changes, cdc.Change{Event: cdc.Remove, Sequence: cdc.SequenceOf(1), Keys: keys, Old: image})
		}
	}
	rows := transform.Fold(m, changes, transform.Stamp{}).Rows
	for i, row := range rows {
		if claim, ok := m.Claim(row.Table, row.Row, keys, row.Owner != ""); ok {
			rows[i] = claim
		}
	}
	return rows
}
