package sink

import (
	"context"
	"slices"

	"github.com/dynamodb-bigtable/replicator/transform"
)

// Table executes conditional writes. Bigtable implements it. sinktest.Memory is the reference that
// interprets requests literally.
type Table interface {
	// Apply executes a request. It returns true if the request was applied, and false if its
	// predicate refused it. Errors are *Error. Apply makes no hidden retries.
	Apply(ctx context.Context, r *Request) (applied bool, err error)
}

// Reader reads rows of a target table, for comparison.
type Reader interface {
	// ReadRows calls f for each row of the range in the order of keys. It returns nil only after
	// the last row. Otherwise it returns the error of f, if f returns one, or *Error.
	ReadRows(ctx context.Context, table string, r Range, f func(Row) error) error
}

// SetReader reads single rows of a target table, many in one call.
type SetReader interface {
	// ReadSet calls f for each of the given rows that exists, in the order of keys, like ReadRows.
	// The keys must be distinct.
	ReadSet(ctx context.Context, table string, rows []string, f func(Row) error) error
	// ReadSince calls f with the key of each row of the range that has a cell with a timestamp at
	// or after `since`, in any family. The time is in microseconds since 1970. Keys come in order.
	ReadSince(ctx context.Context, table string, r Range, since int64, f func(key string) error) error
}

// MarkReader reads only replicator's cells of rows: versions, tombstones and origins. So a sweep of
// a whole table reads few bytes per row.
type MarkReader interface {
	// ReadMarks calls f for the first `limit` rows of the range, each as MarksOf returns it. It
	// skips rows without marks unless `unmarked` is true. A limit of 0 is no limit. Its errors are
	// like the errors of ReadRows.
	ReadMarks(ctx context.Context, table string, r Range, unmarked bool, limit int, f func(Row) error) error
	// ReadAt calls f for each of the given rows that has cells with exactly the given time, with
	// only these cells. The time is in microseconds, in whole milliseconds. The keys must be
	// distinct. Its errors are like the errors of ReadRows.
	ReadAt(ctx context.Context, table string, rows []string, at int64, f func(Row) error) error
	// SampleKeys returns sorted row keys that divide the table into parts of about the same size;
	// none for a small table. Errors are *Error.
	SampleKeys(ctx context.Context, table string) ([]string, error)
}

// MarksOf returns a row without its data: its key and the cells of replicator's families.
func MarksOf(r Row) Row {
	r.Own = slices.DeleteFunc(slices.Clone(r.Own), func(c transform.Cell) bool { return len(c.Value) == 0 })
	r.Cells = nil
	return r
}

// Marked reports whether a row has cells of replicator's families.
func (r Row) Marked() bool { return r.Held() != "" || len(r.Own) > 0 }

// Range is a range of rows. It includes From and excludes To. An empty key means no bound.
type Range struct{ From, To string }

// Single returns the range of one row.
func Single(row string) Range { return Range{row, row + "\x00"} }

// Prefix returns the range of all rows whose keys begin with prefix.
func Prefix(prefix string) Range {
	end := len(prefix)
	for end > 0 && prefix[end-1] == 0xff {
		end--
	}
	if end == 0 {
		return Range{From: prefix} // only keys with this prefix sort after a key of 0xFF bytes
	}
	return Range{prefix, prefix[:end-1] + string([]byte{prefix[end-1] + 1})}
}

// Row is a row of a target table as it is stored.
type Row struct {
	Key string
	// Version is the live version of the row's only item. It is empty if no item is live in the
	// row, or if several items share the row.
	Version transform.Version
	// Gone is the version of that item's tombstone, empty if there is none.
	Gone transform.Version
	// GoneAt is when the server wrote the tombstone, in microseconds since 1970.
	GoneAt int64
	// Marker is the marker of the fast load that copied the row; zero if there is none. Without a
	// version or tombstone beside it, it determines Version.
	Marker Marker
	// versioned reports that the row has a version or tombstone of its own.
	versioned bool
	// Cells are the cells of all families except replicator's (IsOwn), by family, then qualifier,
	// then from newest to oldest.
	Cells []transform.Cell
	// Own are the other cells of replicator's two families, in the same order. A witness row has
	// such cells, for example.
	Own []transform.Cell
}

// Held returns the version with which the guard compares: the higher of the row's live version and
// its tombstone.
func (r Row) Held() transform.Version { return max(r.Version, r.Gone) }

// HeldBy returns the version with which the guard compares for an item in a shared row. It is the
// higher of the item's live version and its tombstone, or empty if the row holds neither. Without
// an owner it returns Held.
func (r Row) HeldBy(owner string) transform.Version {
	live, gone, _ := r.Versions(owner)
	return max(live, gone)
}

// Versions returns the live version and the tombstone of the row's only item, or of the owner among
// several. The result `goneAt` is when the server wrote the tombstone, in microseconds since 1970.
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

// NewRow makes a row from cells, which must be sorted by family, then qualifier, then from newest
// to oldest. It is for implementations of Reader.
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
		case c.Family == LiveFamily && c.Qualifier == MarkerColumn:
			if m := markerOf(&c); m.At > r.Marker.At {
				r.Marker = m
			}
		case c.Family == LiveFamily || c.Family == GoneFamily:
			r.Own = append(r.Own, c)
		case IsOwn(c.Family): // skip the fence: the write that sets its cell deletes it again
		default:
			if r.Cells == nil {
				r.Cells = make([]transform.Cell, 0, len(cells))
			}
			r.Cells = append(r.Cells, c)
		}
	}
	if r.versioned = r.Held() != ""; r.CopiedOnly() {
		r.Version = r.Marker.version()
	}
	return r
}
