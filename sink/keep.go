package sink

import (
	"cmp"
	"context"
	"slices"

	"github.com/dynamodb-bigtable/replicator/transform"
)

// A put that keeps older cells.
//
// What such a put deletes depends on what the row holds: a column that the new image lacks goes as a whole, and Bigtable has no
// request for "all columns but these". So the row is looked at first, and the request is made for the row as it was seen: it is refused
// by any version above the one seen, which is a compare-and-set, because every write of ours raises the version (S1). As the version seen is
// below that of the put, everything the guard refuses is refused here too, and executions still make the row the maximum of what
// they bring. A refused request is followed by another look, after which the put is stale or is made anew.
//
// Of each column in the image the cells from the time of the put on are deleted, which are those of a load that read the item after the
// change, or of another change in the same second, and the value is set, unless the newest cell left holds it already. So a column has
// a cell for each value that the attribute had since it last appeared, at the time from which it had it. Cells before a column's, a row's or a
// generation's beginning are gone: no cell can say that there was nothing, and across a gap nobody knows what there was.

// Looker shows a row as far as a put that keeps older cells needs it.
type Looker interface {
	// Look reads the row of a mutation: all cells of the item's version columns and, of each column that the mutation owns, at least the
	// newest cell, and the newest before the given time in microseconds. More does no harm. Errors are *Error.
	Look(ctx context.Context, m *transform.RowMutation, before int64) (Row, error)
}

// keepTries bounds how often a row is looked at anew because it changed in between. Only the item's own writers change its version.
const keepTries = 5

// Execute makes one attempt to write a mutation, with as many looks as it takes. It tells whether it was applied (true) or found the row at
// its version or above (false). Rows may be nil if the mutation does not keep older cells. Errors are *Error.
//
// A tombstone of a put's own version is what is left of one that was put aside. It counts as rejected, as it would if it were sent again: whoever removed it may
// have been gone before it was parked.
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

// pastSize is about how many bytes of a request are of former images.
func pastSize(m *transform.RowMutation) (n int64) {
	for _, cells := range m.Past {
		past := Request{Ops: make([]Op, 0, len(cells))}
		for _, c := range cells {
			past.Ops = append(past.Ops, setting(c))
		}
		n += past.Size()
	}
	return n
}

// notRejected takes an error of a read for one of the table: a row is bad for what is written to it, not for being read.
func notRejected(err error) error {
	if Is(err, Rejected) {
		return permanent(err)
	}
	return err
}

// since is the time of the first cell that a put brings.
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

// KeepOlder is the request that executes a put which keeps older cells on a row as it was seen; false if the row holds the version, or a
// higher one. It is pure. Of a mutation that does not keep them it is the guard's.
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
	request.Refuse.AtLeast = held + "\x00" // the least of what is above it
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
		request.Ops = marks(ops, m)
	}
	return request, true // of more changes than a request may hold, only the image is left
}

// keeping works out the changes of one row.
type keeping struct {
	kept  bool // what the row holds stays as history
	seen  map[transform.Column][]transform.Cell
	order []transform.Column // of seen
	runs  map[transform.Column]*run

	before map[transform.Column]transform.Cell // what the item had, if what the row holds is in doubt
	loaded bool                                // the row is a load's
}

// run is a column since it last appeared.
type run struct {
	from   int64 // time of its first cell
	begins int   // the image it begins with
	last   int   // the last image that has it
	cells  []transform.Cell
}

// look takes what the item owns of the row as it was seen.
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
	for _, cells := range k.seen { // a filter of several branches need not give them in order
		slices.SortStableFunc(cells, func(a, b transform.Cell) int { return cmp.Compare(b.Timestamp, a.Timestamp) })
	}
}

// doubt prepares for cells that the stream may contradict: those of a load or a repair. Their time is before that of their read, which may be
// after changes that the stream is only about to bring, so their values would stand before their time. What the item had before
// the first change at hand decides: a cell that says something else goes, and of a load, all before it.
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

// contradicted tells whether the n-th newest cell of a column, which is from before the first change, is not what the item had then.
func (k *keeping) contradicted(at transform.Column, n int) bool {
	if k.before == nil || n > 0 && !k.loaded {
		return false // of a repair only the newest cell is in doubt
	}
	had, ok := k.before[at]
	return !ok || string(had.Value) != string(k.seen[at][n].Value)
}

// follow goes through the images in their order.
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

// add follows the column's cells by one of a later image: it takes the place of one of the same time, and is not needed if it says what the
// one before it says.
func (r *run) add(c transform.Cell) {
	if n := len(r.cells); n > 0 && r.cells[n-1].Timestamp >= c.Timestamp {
		r.cells = r.cells[:n-1]
	}
	if n := len(r.cells); n > 0 && string(r.cells[n-1].Value) == string(c.Value) {
		return
	}
	r.cells = append(r.cells, c)
}

// ops are the changes of what the item owns.
func (k *keeping) ops(m transform.RowMutation) []Op {
	var ops []Op
	if !k.kept {
		ops = deletions(ops, m)
	}
	named := map[transform.Column]bool{}
	for _, c := range m.Cells {
		at := transform.Column{Family: c.Family, Qualifier: c.Qualifier}
		named[at] = true
		if c.Add {
			ops = append(ops, Op{Kind: DeleteColumn, Family: c.Family, Qualifier: c.Qualifier}, setting(c))
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

// column adds the changes of one column that the image has.
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
		ops = append(ops, setting(c))
	}
	return ops
}
