package transform

import (
	"slices"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

// While the application writes the target too, an image is applied twice. The timestamped
// application follows immediately. The exact application follows when the application's own write
// of the same change can no longer be in flight. The timestamped mutation (count 0) must not remove
// newer writes of the application. It sets cells at the record's second, and deletes only columns
// that an old image names, up to that second. The exact mutation (count 1) is the result of Fold.

// name sets Named and Second in rows. Named gets the cells that old images of the item in the page
// had in the row.
func (m *Mapping) name(enc *encoder, changes []cdc.Change, h *history, rows []RowMutation) {
	for i := range rows {
		row := &rows[i]
		row.Second = h.micros
		named := map[Column]bool{} // for lookup only
		for _, at := range h.moments {
			for _, c := range m.had(enc, changes[at.change].Old, row, 0, 0) {
				if column := (Column{c.Family, c.Qualifier}); !named[column] {
					named[column] = true
					row.Named = append(row.Named, Cell{Family: c.Family, Qualifier: c.Qualifier, Add: c.Add})
				}
			}
		}
	}
}

// Timestamped returns the batch's first application under dual writes: the same rows at count 0.
// The result also gets the parked records, at the exact version, so that the row does not seem
// newer than the record. The batch b remains as the exact application. Its rows no longer name
// columns of old images.
//
// The two batches share the images of the page. The batch must have been folded under dual writes.
func (b *Batch) Timestamped() Batch {
	first := *b
	first.Rows = slices.Clone(b.Rows)
	for i := range first.Rows {
		first.Rows[i].Version, first.Rows[i].Timestamped = first.Rows[i].Version.WithoutCount(), true
		b.Rows[i].Named = nil
	}
	b.Parked, b.Unaddressed, b.Ignored = nil, nil, nil
	return first
}

// Size returns the approximate size of a batch in bytes: the cells of its rows, and the images that
// it was folded from.
func (b *Batch) Size() int64 {
	const perRow, perCell = 320, 96
	n := int64(0)
	for i := range b.Rows {
		row := &b.Rows[i]
		n += perRow + int64(len(row.Item)+len(row.Row)+len(row.Owner)+len(row.Origin))
		for _, c := range row.Cells {
			n += perCell + int64(len(c.Qualifier)+len(c.Value))
		}
	}
	for i := range b.changes {
		c := &b.changes[i]
		n += sizeOf(c.Keys.Attributes()) + sizeOf(c.Old.Attributes()) + sizeOf(c.New.Attributes())
	}
	return n
}

// sizeOf returns the approximate size of attributes in memory, in bytes.
func sizeOf(list []attribute.Attribute) (n int64) {
	for _, a := range list {
		n += int64(len(a.Name)) + sizeOfValue(a.Value)
	}
	return n
}

func sizeOfValue(v attribute.Value) int64 {
	const perValue = 56
	n := perValue + int64(len(v.Text())) + sizeOf(v.Members())
	for _, e := range v.Elements() {
		n += sizeOfValue(e)
	}
	return n
}
