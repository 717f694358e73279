package transform

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

// RowMutation is what one item asks of one row: to hold exactly these cells, or none, from this version on. It is idempotent
// under the guard, and mutations of one item may be executed in any order, any number of times.
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
	// At is the time of the image; a tombstone must not be younger than what it guards against.
	At time.Time
	// Owner is empty if the row is the item's. Otherwise other items live in it too, and the item's version is kept under this
	// name, which is its ItemKey.
	Owner string
	// Origin is the source table and the ItemKey, where the row alone does not tell them; empty otherwise.
	Origin string
	// Families and Columns are owned by the item in this row: all their cells are removed before Cells are set.
	Families []string
	Columns  []Column
	// InheritedFamilies and InheritedColumns are removed too: what mappings before this one may have left in the row. They go
	// whatever the application wrote meanwhile (Timestamped), because the mapping does not write them any more.
	InheritedFamilies []string
	InheritedColumns  []Column
	// Alone: every version in the row but the mutation's goes as well. No other item has anything there (Mapping.Sole).
	Alone bool
	// Remove tells that the item does not map to this row any more: a tombstone is left.
	Remove bool
	// Cells are the item's cells here; none if Remove.
	Cells []Cell
	// Keep tells that older cells stay beside those of a put. Then Past is what became of the row in the same page before, by the changes
	// of the item in their order: its cells then, nil where the item had none here. Before is what the item had here before the page's first
	// change of it, as far as the stream tells; the times of these cells mean nothing.
	Keep   bool
	Past   [][]Cell
	Before []Cell
	// Timestamped tells that the application's newer cells stay: the first of the two applications of a change under dual writes.
	Timestamped bool
	// Named are the cells that old images of the item in the page had in this row: of a page that was folded under dual writes.
	// Their columns are all that a timestamped mutation deletes, up to Second.
	Named []Cell
	// Second is the cell time of the image, in microseconds; only together with Named.
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
	// Add tells that the column is an aggregate, and Value a number of 8 bytes, big-endian, that is added to it once it was
	// emptied: so the number is absolute, however often it is written.
	Add bool
}

// Parked is an image that cannot be mapped or stored, kept whole with its reason until an operator decides. Only its put half
// is missing in the target: what the item owned before was removed at its version.
type Parked struct {
	Source  string // source table
	Key     string // ItemKey of the item
	Version Version
	Reason  string // for the operator; without item data
	Change  cdc.Change
}

// Batch is what a page of changes, or of a load, asks of the target. Every row is named at most once per item.
type Batch struct {
	// Source is the source table.
	Source string
	Rows   []RowMutation
	Parked []Parked
	// Unaddressed are the items that had no address before their newest change. What is parked of them from before names no row by which it could
	// be told that it is obsolete.
	Unaddressed []Unaddressed
	// Changes is how many changes the batch was folded from.
	Changes int
	// Ignored is how many items rules say to ignore, by the rule's name; nil if there are none.
	Ignored map[string]int
	// Read is when it was read; who makes the batch knows that, and may tell.
	Read Reading
	// Latest is the highest cell time so far, in whole milliseconds: the NotBefore of the shard's next page.
	Latest time.Time

	mapping *Mapping
	changes []cdc.Change     // of a page
	items   []attribute.Item // of a load; then changes is empty
	absent  []attribute.Item // keys of items that a sweep did not find; they are counted behind items
	readAt  time.Time        // of a load
}

// Reading is a moment on two clocks: the source's, zero if it did not say what it shows, and the reader's monotonic one.
type Reading struct {
	At   time.Time
	Mono time.Duration
}

// Unaddressed is an item, by its ItemKey, and the version of its newest change in a page.
type Unaddressed struct {
	Item    string
	Version Version
}

// Park returns the record with which the put half of a row mutation of this batch is put aside. The caller removes what
// the item owns in the row, by turning the mutation into a Remove of the same version.
func (b *Batch) Park(row RowMutation, reason string) Parked {
	return Parked{Source: b.Source, Key: row.Item, Version: row.Version, Reason: reason, Change: b.change(row.Change, row.Version)}
}

// change is the record that a mutation came from. An item of a load was read, not changed; its record says so as an insert at
// the time it was read, or as a remove if it was not there.
func (b *Batch) change(i int, v Version) cdc.Change {
	if i < len(b.changes) {
		return b.changes[i]
	}
	if i >= len(b.items) {
		return cdc.Change{Event: cdc.Remove, Sequence: v.Sequence(), Time: b.readAt, Keys: b.absent[i-len(b.items)]}
	}
	return cdc.Change{Event: cdc.Insert, Sequence: v.Sequence(), Time: b.readAt, Keys: b.mapping.Keys(b.items[i]), New: b.items[i]}
}
