package sink

import (
	"context"
	"slices"

	"github.com/dynamodb-bigtable/replicator/transform"
)

// Table executes conditional writes. Bigtable is one; sinktest.Memory is the reference that interprets requests literally.
type Table interface {
	// Apply executes a request and tells whether it was applied (true) or refused by its predicate (false). Errors are *Error;
	// there are no attempts behind the caller's back.
	Apply(ctx context.Context, r *Request) (applied bool, err error)
}

// Reader reads rows of a target table, for comparison.
type Reader interface {
	// ReadRows calls f for each row of the range in the order of keys. It returns nil only after the last row, the error of f if f
	// returns one, or *Error.
	ReadRows(ctx context.Context, table string, r Range, f func(Row) error) error
}

// SetReader reads single rows of a target table, many at once.
type SetReader interface {
	// ReadSet calls f for each of the rows that exists, in the order of their keys, as ReadRows
	// does. The keys are distinct.
	ReadSet(ctx context.Context, table string, rows []string, f func(Row) error) error
	// ReadSince calls f with the key of each row of the range that has a cell, of whatever family,
	// written at or after a time in microseconds since 1970, in the order of the keys. It goes by
	// the cells' own times.
	ReadSince(ctx context.Context, table string, r Range, since int64, f func(key string) error) error
}

// MarkReader reads what is ours of rows: versions, tombstones and origins. A sweep of a whole table reads few bytes of a row so.
type MarkReader interface {
	// ReadMarks calls f for the first rows of the range, as many as limit, of which each is as
	// MarksOf shows it. Rows without marks are left out unless unmarked is set. Limit 0 is no
	// limit. Errors are as ReadRows's.
	ReadMarks(ctx context.Context, table string, r Range, unmarked bool, limit int, f func(Row) error) error
	// SampleKeys are row keys in order that divide the table into parts of about the same size; none of a small one. Errors are *Error.
	SampleKeys(ctx context.Context, table string) ([]string, error)
}

// MarksOf is a row without its data: its key, and the cells of our own families.
func MarksOf(r Row) Row {
	r.Own = slices.DeleteFunc(slices.Clone(r.Own), func(c transform.Cell) bool { return len(c.Value) == 0 })
	r.Cells = nil
	return r
}

// Marked reports whether a row has cells of our own families.
func (r Row) Marked() bool { return r.Held() != "" || len(r.Own) > 0 }

// Range is the rows from From, which is included, up to To, which is not; empty means no bound.
type Range struct{ From, To string }

// Single is the range of one row.
func Single(row string) Range { return Range{row, row + "\x00"} }

// Prefix is the range of all rows that begin with prefix.
func Prefix(prefix string) Range {
	end := len(prefix)
	for end > 0 && prefix[end-1] == 0xff {
		end--
	}
	if end == 0 {
		return Range{From: prefix} // nothing sorts behind a row of 0xFF bytes but its own continuations
	}
	return Range{prefix, prefix[:end-1] + string([]byte{prefix[end-1] + 1})}
}

// Row is a row of a target table as it is stored.
type Row struct {
	Key string
	// Version is the live version of the row's one item, empty if it has none: nothing of ours lives in it, or several items do.
	Version transform.Version
	// Gone is the version of that item's tombstone, empty if there is none.
	Gone transform.Version
	// GoneAt is when the server wrote the tombstone, in microseconds since 1970.
	GoneAt int64
	// Cells are the cells of all families but ours (IsOwn), by family, then qualifier, then from
	// newest to oldest.
	Cells []transform.Cell
	// Own are the other cells of our two families, in the same order: those of a witness row, for example.
	Own []transform.Cell
}

// Held is the higher of the row's live version and its tombstone: what the guard compares with.
func (r Row) Held() transform.Version { return max(r.Version, r.Gone) }

// HeldBy is what the guard compares with for an item that shares the row with others: the higher of its live version and its
// tombstone, empty if the row holds neither. Without an owner it is Held.
func (r Row) HeldBy(owner string) transform.Version {
	live, gone, _ := r.Versions(owner)
	return max(live, gone)
}

// Versions are the live version and the tombstone of the row's one item, or of the owner among several, with the time at which the
// server wrote the tombstone, in microseconds since 1970.
func (r Row) Versions(owner string) (live, gone transform.Version, goneAt int64) {
	if owner == "" {
		return r.Version, r.Gone, r.GoneAt
	}
	for _, c := range r.Own {
		v := transform.Version(c.Value)
		switch {
		case c.Qualifier != itemColumn(VersionColumn, owner):
		case c.Family == LiveFamily:
			live = max(live, v)
		case v > gone:
			gone, goneAt = v, c.Timestamp
		}
	}
	return live, gone, goneAt
}

// NewRow sorts cells, which are by family, then qualifier, then from newest to oldest, to where they belong in a row. It serves
// implementations of Reader.
func NewRow(key string, cells []transform.Cell) Row {
	r := Row{Key: key}
	for _, c := range cells {
		switch {
		case c.Family == LiveFamily && c.Qualifier == VersionColumn:
			r.Version = max(r.Version, transform.Version(c.Value))
		case c.Family == GoneFamily && c.Qualifier == VersionColumn:
			if v := transform.Version(c.Value); v > r.Gone {
				r.Gone, r.GoneAt = v, c.Timestamp
			}
		case c.Family == LiveFamily || c.Family == GoneFamily:
			r.Own = append(r.Own, c)
		case IsOwn(c.Family): // a fence's cell is gone with the write that made it
		default:
			r.Cells = append(r.Cells, c)
		}
	}
	return r
}
