package sink

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/transform"
)

// This file contains the marker of a fast load.
//
// A fast load copies items into a table that held no rows, without a condition on each row. Its
// requests do not compare versions, so an outdated image may be written over a newer row, or beside
// a tombstone. Three rules make that harmless. All cells of a fast load have the same time, which
// is earlier than the time of every other cell. So they never hide a newer cell. Each row gets a
// marker, and no version. And after the load, when none of its requests can be executed any more,
// a sweep deletes the cells of that time from every row that has both a marker and a version.
//
// A row that has only a marker is live. The guard finds no version in it, so every guarded write is
// newer. For readers its version is that of an image that was loaded at the time of the marker.

// MarkerColumn of LiveFamily marks a row that a fast load has copied. The cell has the time of the
// load's cells. Its value is the generation and the number of the load.
const MarkerColumn = "b"

// Marker is the marker of a fast load. The zero value is no marker.
type Marker struct {
	Generation uint32
	Load       uint32 // the number of the load
	// At is the time of the load's cells, in microseconds, in whole milliseconds.
	At int64
}

func (m Marker) value() []byte {
	return strconv.AppendUint(append(strconv.AppendUint(nil, uint64(m.Generation), 10), '.'), uint64(m.Load), 10)
}

// version returns the version of a row that has only this marker.
func (m Marker) version() transform.Version {
	return transform.LoadVersion(m.Generation, time.UnixMicro(m.At))
}

// markerOf returns the marker in a cell; the zero value if the cell holds no marker.
func markerOf(c *transform.Cell) Marker {
	generation, load, _ := strings.Cut(string(c.Value), ".")
	g, err := strconv.ParseUint(generation, 10, 32)
	n, failed := strconv.ParseUint(load, 10, 32)
	if err != nil || failed != nil {
		return Marker{}
	}
	return Marker{uint32(g), uint32(n), c.Timestamp}
}

// CopiedOnly reports whether a fast load has copied the row, and no guarded write has changed it
// since.
func (r Row) CopiedOnly() bool { return r.Marker != Marker{} && !r.versioned }

// MayHoldGhosts reports whether cells of a fast load may be in a row that a guarded write has
// changed.
func (r Row) MayHoldGhosts() bool {
	return r.Marker != Marker{} && r.versioned
}

// Entry is an unconditional write of one row. Its operations are executed in order, atomically.
type Entry struct {
	Row string
	Ops []Op
}

// bulkTable executes unconditional writes of many rows. *Bigtable implements it.
type bulkTable interface {
	// ApplyAll executes the entries of one table, each once and in any order. The rows must be
	// distinct. The result has an error for each entry: nil if the entry is durable, otherwise
	// *Error. ApplyAll makes no hidden retries.
	ApplyAll(ctx context.Context, table string, entries []Entry) []error
}

// millisecond is the smallest difference between two cell times in Bigtable, in microseconds.
const millisecond = 1000

// appendCopy appends the operations that copy an image in a fast load. A row key that does not show
// its item gets an origin at the same time. An origin at the time of guarded writes would be lost
// if the ghosts are deleted.
func appendCopy(ops []Op, m *transform.RowMutation, mark Marker, value []byte) []Op {
	for i := range m.Cells {
		c := &m.Cells[i]
		ops = append(ops, Op{Kind: SetCell, Family: c.Family, Qualifier: c.Qualifier, Timestamp: mark.At, Value: c.Value})
	}
	ops = append(ops, Op{Kind: SetCell, Family: LiveFamily, Qualifier: MarkerColumn, Timestamp: mark.At, Value: value})
	if m.Origin != "" {
		ops = append(ops, Op{Kind: SetCell, Family: LiveFamily, Qualifier: OriginColumn, Timestamp: mark.At, Value: []byte(m.Origin)})
	}
	return ops
}

// Ghosts returns the entry that deletes the cells of a fast load from a row that guarded writes
// have changed. The argument `cells` must hold the row's cells at the time of the marker. The entry
// deletes no newer cell, so it needs no condition. An origin is kept in a live row: it is true, and
// garbage collection may have removed the guarded write's origin because of it.
func Ghosts(row Row, cells []transform.Cell) Entry {
	at := row.Marker.At
	e := Entry{Row: row.Key, Ops: []Op{{Kind: DeleteAt, Family: LiveFamily, Qualifier: MarkerColumn, Timestamp: at}}}
	for _, c := range cells {
		switch {
		case c.Timestamp != at || c.Family == LiveFamily && (c.Qualifier != OriginColumn || row.Gone <= row.Version):
		case !IsOwn(c.Family) || c.Family == LiveFamily:
			e.Ops = append(e.Ops, Op{Kind: DeleteAt, Family: c.Family, Qualifier: c.Qualifier, Timestamp: at})
		}
	}
	return e
}

// unmark makes a guarded write of a table into which a fast load has copied items remove the row's
// marker. Until the table is swept, the cells of the write are newer than those of the load. It
// also deletes an origin before it sets one, because an origin of the load has a later time, and
// garbage collection would prefer it.
func (m Mark) unmark(ops []Op) (before []Op) {
	before = []Op{{Kind: DeleteColumn, Family: LiveFamily, Qualifier: MarkerColumn}}
	for i := range ops {
		op := &ops[i]
		switch {
		case op.Kind != SetCell:
		case op.Family == LiveFamily && op.Qualifier == OriginColumn:
			before = append(before, Op{Kind: DeleteColumn, Family: LiveFamily, Qualifier: OriginColumn})
		case !m.Swept && !IsOwn(op.Family) && op.Timestamp != ServerTime:
			op.Timestamp = max(op.Timestamp, m.Copied+millisecond)
		}
	}
	return before
}

// errNoBulk is the error of a fast load whose table does not execute bulk requests.
func errNoBulk(table string) error {
	return &Error{Op: "MutateRows", Reason: Permanent, Code: "Unimplemented", Text: fmt.Sprintf("table %s takes no bulk requests", table)}
}
