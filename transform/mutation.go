package transform

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

// RowMutation makes one row hold exactly these cells of one item, or none of the item, from this
// version on. It is idempotent under the guard: mutations of one item may be executed in any order,
// any number of times.
type RowMutation struct {
	// Item is the ItemKey of the item. It is item data: it must not be logged.
	Item string
	// Change is the place of the image in the page or load that the batch was made from; Batch.Park needs it.
	Change int
	// Table and Row are the target address.
	Table string
	Row   string
	// Version ranks the image. At most one mutation of an item has a given version and row.
	Version Version
	// At is the time of the image. A tombstone must not be younger than the writes that it guards
	// against.
	At time.Time
	// Owner is empty if the row belongs to the item. Otherwise other items share the row, and the
	// item's version is stored under this name, its ItemKey.
	Owner string
	// Origin is the source table and the ItemKey if the row key does not show them; empty
	// otherwise.
	Origin string
	// Families and Columns are owned by the item in this row: all their cells are removed before Cells are set.
	Families []string
	Columns  []Column
	// InheritedFamilies and InheritedColumns are removed too: earlier mappings may have left cells
	// there. They are removed even if the application wrote them meanwhile (Timestamped), because
	// the mapping no longer writes them.
	InheritedFamilies []string
	InheritedColumns  []Column
	// Alone reports that every other version in the row is removed as well, because no other item
	// has cells there (Mapping.Sole).
	Alone bool
	// Remove reports that the item no longer maps to this row: a tombstone is left.
	Remove bool
	// Cells are the item's cells in the row; none if Remove.
	Cells []Cell
	// Keep reports that older cells stay next to the cells of a put. Past and Before then hold
	// earlier states of the row. Past has the item's cells in this row after each earlier change of
	// the page, in order. An entry is nil if the item had no cells there. Before has the item's
	// cells in this row before the item's first change in the page, if the stream shows them.
	// Timestamps in Before mean nothing.
	Keep   bool
	Past   [][]Cell
	Before []Cell
	// Timestamped reports that newer cells of the application stay. It marks the first of two
	// writes of a change under dual writes.
	Timestamped bool
	// Named are the cells that old images of the item in the page had in this row. It is set only
	// in a page that was folded under dual writes. A timestamped mutation deletes only their
	// columns, up to Second.
	Named []Cell
	// Second is the cell time of the image, in microseconds. It is set only together with Named.
	Second int64
}

// Column names a column of a row.
type Column struct{ Family, Qualifier string }

// Cell is one value of a row.
type Cell struct {
	Family    string
	Qualifier string
	// Timestamp is in microseconds since 1970, a multiple of 1,000 (Bigtable keeps milliseconds).
	Timestamp int64
	Value     []byte
	// Add reports that the column is an aggregate, and Value a number of 8 bytes, big-endian. The
	// column is emptied before the number is added, so the total is absolute, even if it is written
	// several times.
	Add bool
}

// Parked is an image that cannot be mapped or stored. It is kept whole, with its reason, until an
// operator decides. The item's former cells were removed from the target at this version. Only the
// item's new cells are missing.
type Parked struct {
	Source  string // source table
	Key     string // ItemKey of the item
	Version Version
	Reason  string // for the operator; without item data
	Change  cdc.Change
}

// Batch holds the mutations of a page of changes, or of a page of a load. It names a row at most
// once per item.
type Batch struct {
	// Source is the source table.
	Source string
	Rows   []RowMutation
	Parked []Parked
	// Unaddressed are the items that had no address before their newest change in the page. Earlier
	// parked records of such an item name no row. So no row can show that these records are
	// obsolete.
	Unaddressed []Unaddressed
	// Changes is how many changes the batch was folded from.
	Changes int
	// Ignored counts the items that rules ignore, by the rule's name; nil if there are none.
	Ignored map[string]int
	// Read is when the page was read, if the caller that made the batch sets it.
	Read Reading
	// Latest is the highest cell time so far, in whole milliseconds. It is the NotBefore of the
	// shard's next page.
	Latest time.Time

	mapping *Mapping
	changes []cdc.Change     // the page of changes
	items   []attribute.Item // the items of a load; then changes is empty
	absent  []attribute.Item // keys of items that a sweep did not find; RowMutation.Change counts them after items
	readAt  time.Time        // when a load read the items
}

// Reading is a moment on two clocks: the source's, zero if the source did not report it, and the
// reader's monotonic clock.
type Reading struct {
	At   time.Time
	Mono time.Duration
}

// Unaddressed is an item, by its ItemKey, and the version of its newest change in a page.
type Unaddressed struct {
	Item    string
	Version Version
}

// Park returns the record of an image that a row mutation of this batch cannot store. The caller
// then turns the mutation into a Remove of the same version, which removes the item's cells from
// the row.
func (b *Batch) Park(row RowMutation, reason string) Parked {
	return Parked{Source: b.Source, Key: row.Item, Version: row.Version, Reason: reason, Change: b.change(row.Change, row.Version)}
}

// Times returns the latest time of the application's changes in a page, and that of the removals by
// TTL. Each is zero if there are none. A change without a time counts as one of the far future.
func (b *Batch) Times() (written, expired time.Time) {
	for i := range b.changes {
		c, latest := &b.changes[i], &written
		if c.Expired {
			latest = &expired
		}
		at := c.Time
		if at.IsZero() {
			at = time.Unix(1<<40, 0)
		}
		if at.After(*latest) {
			*latest = at
		}
	}
	return written, expired
}

// change returns the record that a mutation came from. An item of a load has no stream record, so
// the result is an insert at the time of the read, or a remove if the item was not found.
func (b *Batch) change(i int, v Version) cdc.Change {
	if i < len(b.changes) {
		return b.changes[i]
	}
	if i >= len(b.items) {
		return cdc.Change{Event: cdc.Remove, Sequence: v.Sequence(), Time: b.readAt, Keys: b.absent[i-len(b.items)]}
	}
	return cdc.Change{Event: cdc.Insert, Sequence: v.Sequence(), Time: b.readAt, Keys: b.mapping.Keys(b.items[i]), New: b.items[i]}
}
