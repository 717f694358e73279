package sink

import (
	"cmp"
	"context"
	"slices"

	"github.com/dynamodb-bigtable/replicator/transform"
)

// This file builds puts that keep older cells.
//
// The deletes of such a put depend on the content of the row. A column that the new image lacks is
// deleted as a whole, and Bigtable has no request for "all columns except these". So the row is
// read first, and the request fits only the row that was read. Any higher version makes the row
// refuse the request. This is a compare-and-set, because every write raises the version (S1). The
// version read is below the put's. So the row refuses this request whenever it would refuse the
// guard's, and each execution still sets the row to the maximum. After a refusal the row is read
// again. Then either the put is stale, or a new request is made.
//
// In each column of the image, cells at or after the time of the put are deleted. They come from a
// load that read the item after the change, or from another change in the same second. Then the
// value is set, unless the newest remaining cell holds it already. So a column has one cell for
// each value that the attribute has had since it last appeared. Each cell has the time at which the
// attribute got the value. Cells before the beginning of a column, row or generation are deleted.
// No cell can express that there was no value, and values across a gap are unknown.

// Looker reads the part of a row that is needed for a put which keeps older cells.
type Looker interface {
	// Look reads the row of a mutation. It returns all cells of the item's version columns. Of each
	// column that the mutation owns, it returns at least the newest cell, and the newest cell
	// before the given time in microseconds. It may return more cells. Errors are *Error.
	Look(ctx context.Context, m *transform.RowMutation, before int64) (Row, error)
}

// keepTries bounds how often a row is read again because it changed in between. Only writers of the
// item change its version.
const keepTries = 5

// Execute makes one attempt to write a mutation, with as many reads as necessary. It returns true
// if the mutation was applied. It returns false if the row has the mutation's version or a higher
// version. The argument `rows` may be nil if the mutation does not keep older cells. Errors are
// *Error.
//
// A tombstone with the put's own version comes from an earlier attempt that was rejected and turned
// into a remove. The put counts as rejected again, because the process that removed the row may
// have ended before it parked the item.
func Execute(ctx context.Context, stamps Stamps, table Table, rows Looker, m *transform.RowMutation) (applied bool, err error) {
	if !m.Keep || m.Remove {
		return stamps.apply(ctx, table, Guard(*m))
	}
	for range keepTries {
		seen, err := rows.Look(ctx, m, since(m))
		if err != nil {
			return false, notRejected(err)
		}
		if _, gone, _ := seen.Versions(m.Owner); gone == m.Version {
			return false, &Error{Op: "CheckAndMutateRow", Reason: Rejected, Code: "InvalidArgument", Text: "the same change was parked before"}
		}
		request, needed := KeepOlder(seen, *m)
		if !needed {
			return false, nil
		}
		if applied, err := stamps.apply(ctx, table, request); applied || err != nil {
			return applied, err
		}
	}
	return false, &Error{Op: "CheckAndMutateRow", Reason: Unknown, Code: "Aborted", Text: "the row changed after every read"}
}

// pastSize returns approximately how many bytes of a request belong to former images.
func pastSize(m *transform.RowMutation) (n int64) {
	for _, cells := range m.Past {
		past := Request{Ops: make([]Op, 0, len(cells))}
		for _, c := range cells {
			past.Ops = append(past.Ops, setting(&c))
		}
		n += past.Size()
	}
	return n
}

// notRejected converts a rejection of a read to an error of the table, because only a write can be
// rejected for an item's content.
func notRejected(err error) error {
	if Is(err, Rejected) {
		return permanent(err)
	}
	return err
}

// since returns the time of the earliest cell of a put.
func since(m *transform.RowMutation) int64 {
	first := int64(-1)
	for _, cells := range append(m.Past[:len(m.Past):len(m.Past)], m.Cells) {
		for _, c := range cells {
			if !c.Add && (first < 0 || c.Timestamp < first) {
				first = c.Timestamp
			}
		}
	}
	return max(0, first)
}

// KeepOlder returns the request that executes a put which keeps older cells, on a row that was read
// as `seen`. It returns false if the row has the put's version or a higher version. For a mutation
// that does not keep older cells, it returns the guard's request. KeepOlder is pure.
func KeepOlder(seen Row, m transform.RowMutation) (Request, bool) {
	live, gone, _ := seen.Versions(m.Owner)
	held := max(live, gone)
	if held >= m.Version {
		return Request{}, false
	}
	request := Guard(m)
	if !m.Keep || m.Remove {
		return request, true
	}
	request.Refuse.AtLeast = held + "\x00" // the lowest value above `held`
	k := keeping{runs: map[transform.Column]*run{}, seen: map[transform.Column][]transform.Cell{}}
	if live > gone && live.Generation() == m.Version.Generation() {
		k.look(seen, m)
		k.kept = true
		if m.Version.Hop() != transform.LoadHop {
			k.doubt(live, m)
		}
	}
	k.follow(m)
	if ops := k.ops(m); len(ops) <= transform.MaxRowCells {
		request.Ops = marks(ops, &m)
	}
	return request, true // if a request cannot hold all changes, it holds only the image
}

// keeping computes the changes of one row.
type keeping struct {
	kept  bool // the row's cells stay as history
	seen  map[transform.Column][]transform.Cell
	order []transform.Column // the columns of `seen`, in order
	runs  map[transform.Column]*run

	before map[transform.Column]transform.Cell // the item's cells before the change, if the row's cells are in doubt
	loaded bool                                // a load wrote the row
}

// run is the history of a column since it last appeared.
type run struct {
	from   int64 // time of its first cell
	begins int   // the index of the image with which the run begins
	last   int   // the index of the last image that has the column
	cells  []transform.Cell
}

// look collects the item's cells from the row that was read.
func (k *keeping) look(seen Row, m transform.RowMutation) {
	for _, c := range seen.Cells {
		at := transform.Column{Family: c.Family, Qualifier: c.Qualifier}
		if !owns(m, at) {
			continue
		}
		if k.seen[at] == nil {
			k.order = append(k.order, at)
		}
		k.seen[at] = append(k.seen[at], c)
	}
	for _, cells := range k.seen { // a filter with several branches may return cells unordered
		slices.SortStableFunc(cells, func(a, b transform.Cell) int { return cmp.Compare(b.Timestamp, a.Timestamp) })
	}
}

// doubt prepares for cells that the stream may contradict: cells that a load or a repair wrote. A
// load or a repair may have read changes that the stream delivers later, so its cells may show
// values too early. The item's image before the first change of the page decides. A cell with
// another value than this image is deleted. If a load wrote the row, all earlier cells of the
// column are deleted too.
func (k *keeping) doubt(held transform.Version, m transform.RowMutation) {
	k.loaded = held.Hop() == transform.LoadHop
	if !k.loaded && held.Count() <= transform.CountExact {
		return
	}
	k.before = map[transform.Column]transform.Cell{}
	for _, c := range m.Before {
		k.before[transform.Column{Family: c.Family, Qualifier: c.Qualifier}] = c
	}
}

// contradicted reports whether the n-th newest cell of a column, which precedes the first change,
// differs from the item's image at that time.
func (k *keeping) contradicted(at transform.Column, n int) bool {
	if k.before == nil || n > 0 && !k.loaded {
		return false // after a repair only the newest cell is in doubt
	}
	had, ok := k.before[at]
	return !ok || string(had.Value) != string(k.seen[at][n].Value)
}

// follow processes the images in order.
func (k *keeping) follow(m transform.RowMutation) {
	for i, cells := range m.Past {
		k.image(i, cells)
	}
	k.image(len(m.Past), m.Cells)
}

func (k *keeping) image(i int, cells []transform.Cell) {
	for _, c := range cells {
		if c.Add {
			continue
		}
		at := transform.Column{Family: c.Family, Qualifier: c.Qualifier}
		r := k.runs[at]
		if r == nil || r.last < i-1 {
			k.runs[at] = &run{from: c.Timestamp, begins: i, last: i, cells: []transform.Cell{c}}
			continue
		}
		r.last = i
		r.add(c)
	}
}

// add appends a cell of a later image. The cell replaces a cell of the same time. It is omitted if
// it has the same value as the cell before it.
func (r *run) add(c transform.Cell) {
	if n := len(r.cells); n > 0 && r.cells[n-1].Timestamp >= c.Timestamp {
		r.cells = r.cells[:n-1]
	}
	if n := len(r.cells); n > 0 && string(r.cells[n-1].Value) == string(c.Value) {
		return
	}
	r.cells = append(r.cells, c)
}

// ops returns the changes of the item's cells.
func (k *keeping) ops(m transform.RowMutation) []Op {
	var ops []Op
	if !k.kept {
		ops = deletions(ops, &m)
	}
	named := map[transform.Column]bool{}
	for _, c := range m.Cells {
		at := transform.Column{Family: c.Family, Qualifier: c.Qualifier}
		named[at] = true
		if c.Add {
			ops = append(ops, Op{Kind: DeleteColumn, Family: c.Family, Qualifier: c.Qualifier}, setting(&c))
			continue
		}
		ops = k.column(ops, at, k.runs[at])
	}
	for _, at := range k.order {
		if !named[at] {
			ops = append(ops, Op{Kind: DeleteColumn, Family: at.Family, Qualifier: at.Qualifier})
		}
	}
	return ops
}

// column appends the changes of one column of the image.
func (k *keeping) column(ops []Op, at transform.Column, r *run) []Op {
	seen, cells, from := k.seen[at], r.cells, r.from
	n := slices.IndexFunc(seen, func(c transform.Cell) bool { return c.Timestamp < from })
	whole := r.begins > 0
	if n >= 0 && k.contradicted(at, n) {
		whole = whole || k.loaded
		from = seen[n].Timestamp
		n = slices.IndexFunc(seen, func(c transform.Cell) bool { return c.Timestamp < from })
	}
	switch {
	case len(seen) == 0:
	case whole:
		ops = append(ops, Op{Kind: DeleteColumn, Family: at.Family, Qualifier: at.Qualifier})
	default:
		if seen[0].Timestamp >= from {
			ops = append(ops, Op{Kind: DeleteFrom, Family: at.Family, Qualifier: at.Qualifier, Timestamp: from})
		}
		if n >= 0 && string(seen[n].Value) == string(cells[0].Value) {
			cells = cells[1:]
		}
	}
	for _, c := range cells {
		ops = append(ops, setting(&c))
	}
	return ops
}
