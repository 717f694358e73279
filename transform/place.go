package transform

import (
	"cmp"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// address is a row, or a cell of a row, that a rule gives to an item.
type address struct {
	w         *write
	row       string
	qualifier string // set for a folded item
	change    int    // index of the page's last change whose new image maps here
}

// errNoRule is the reason for parking an item that no rule matches.
var errNoRule = &Unmappable{Reason: "no rule matches the item"}

// match returns the rule that decides for an item; nil if there is none.
func (m *Mapping) match(item attribute.Item) *rule {
	for _, r := range m.rules {
		if r.when == nil || r.when.Match(item) {
			return r
		}
	}
	return nil
}

// singleWrite returns the write of the rule that decides for an item. It fails if the rule has more
// than one.
func (m *Mapping) singleWrite(item attribute.Item) (*write, error) {
	r := m.match(item)
	switch {
	case r == nil:
		return nil, errNoRule
	case len(r.writes) != 1:
		return nil, unmappable("its rule writes %d rows", len(r.writes))
	}
	return r.writes[0], nil
}

// Placement is the result of mapping one item.
type Placement struct {
	// Rule is the number of the rule that decides, from 0. Name is that rule's name.
	Rule int
	Name string
	// Ignored reports that the rule ignores the item.
	Ignored bool
	// Rows are the mutations that write the item. Version and At are not set.
	Rows []RowMutation
}

// Map maps an item that was written at the given time. It returns the rows and cells that Fold and
// Load produce. The error is *Unmappable.
func (m *Mapping) Map(item attribute.Item, written time.Time) (Placement, error) {
	r := m.match(item)
	if r == nil {
		return Placement{Rule: -1}, errNoRule
	}
	p := Placement{Rule: slices.Index(m.rules, r), Name: r.name, Ignored: r.ignore}
	var h history
	h.item = m.ItemKey(item)
	var s scratch
	if err := h.add(m, &s, item, 0, true); err != nil {
		return p, err
	}
	var enc encoder
	puts, err := m.puts(&enc, item, &h, written, cellTime(written))
	if err != nil {
		return p, err
	}
	p.Rows = m.mutations(nil, RowMutation{Item: h.item, Keep: m.keep}, &h, puts)
	return p, nil
}

// Addresses returns the rows that an item maps to: mutations without cells that own the same
// families and columns. For a mapping that depends only on the primary key, the item's keys are
// enough. The error is *Unmappable.
func (m *Mapping) Addresses(item attribute.Item) ([]RowMutation, error) {
	h := history{item: m.ItemKey(item)}
	var s scratch
	if err := h.add(m, &s, item, 0, true); err != nil {
		return nil, err
	}
	return m.mutations(nil, RowMutation{Item: h.item, Keep: m.keep}, &h, nil), nil
}

// scratch is a reused buffer in which row keys and columns are built before they are compared with
// known ones.
type scratch struct{ row, qualifier []byte }

// add adds the addresses of an image to the union. The argument `current` reports that the image is
// the newest so far, from the given change. The error explains why the image cannot be mapped.
// Addresses that the image does have are added nevertheless.
func (h *history) add(m *Mapping, s *scratch, image attribute.Item, change int, current bool) error {
	r := m.match(image)
	if current {
		h.rule = r
	}
	if r == nil {
		return errNoRule
	}
	var failed error
	for _, w := range r.writes {
		var err error
		if s.row, err = w.appendRow(s.row[:0], image); err == nil && w.folded {
			s.qualifier, err = w.appendQualifier(s.qualifier[:0], image)
		}
		if err != nil {
			if failed == nil {
				failed = err
			}
			continue
		}
		h.addAddress(w, s, change, current)
	}
	return failed
}

func (h *history) addAddress(w *write, s *scratch, change int, current bool) {
	for i := range h.addresses {
		a := &h.addresses[i]
		if a.w == w && a.row == string(s.row) && (!w.folded || a.qualifier == string(s.qualifier)) {
			if current {
				a.change = change
			}
			return
		}
	}
	a := address{w: w, row: string(s.row), change: -1}
	if w.folded {
		a.qualifier = string(s.qualifier)
	}
	if current {
		a.change = change
	}
	h.addresses = append(h.addresses, a)
}

func (w *write) appendQualifier(b []byte, item attribute.Item) ([]byte, error) {
	start := len(b)
	b, err := appendParts(b, w.qualifier, item)
	if err == nil && len(b)-start > MaxQualifierBytes {
		err = unmappable("the column has %d bytes; Bigtable allows %d", len(b)-start, MaxQualifierBytes)
	}
	return b, err
}

// puts returns the cells of the newest image, one list for each address of the history that it maps
// to, in their order.
func (m *Mapping) puts(enc *encoder, image attribute.Item, h *history, at time.Time, micros int64) ([][]Cell, error) {
	puts := h.puts[:0]
	for i := range h.addresses {
		if !h.current(i) {
			puts = append(puts, nil)
			continue
		}
		cells, err := enc.write(m, &h.addresses[i], image, at, micros)
		if err != nil {
			return nil, err
		}
		puts = append(puts, cells)
	}
	return puts, nil
}

// mutations appends one mutation for each row and version column of the union (T3). It is a put if
// `puts` has cells for a current address, and otherwise a remove.
func (m *Mapping) mutations(rows []RowMutation, base RowMutation, h *history, puts [][]Cell) []RowMutation {
	first := len(rows)
	for i := range h.addresses {
		a := &h.addresses[i]
		mutation := base
		mutation.Table, mutation.Row, mutation.Families, mutation.Columns, mutation.Remove = a.w.table, a.row, a.w.families, a.w.columns, true
		if a.w.ownVersion {
			mutation.Owner = h.item
		}
		if a.w.origin {
			mutation.Origin = m.Source + "/" + h.item
		}
		if a.w.folded {
			mutation.Columns = []Column{{a.w.family, a.qualifier}}
		}
		if puts != nil && h.current(i) {
			mutation.Remove, mutation.Cells = false, puts[i]
		}
		if n := sameRow(rows[first:], &mutation); n >= 0 {
			merge(&rows[first+n], &mutation)
			continue
		}
		rows = append(rows, mutation)
	}
	return rows
}

// sameRow returns the index of the mutation of the same row and version column.
func sameRow(rows []RowMutation, m *RowMutation) int {
	for i := range rows {
		if rows[i].Row == m.Row && rows[i].Owner == m.Owner && rows[i].Table == m.Table {
			return i
		}
	}
	return -1
}

// merge joins two mutations of one row for one item. The result owns and puts everything that
// either mutation owns and puts.
func merge(into, m *RowMutation) {
	into.Families = union(into.Families, m.Families)
	into.Columns = union(into.Columns, m.Columns)
	into.Cells = slices.Concat(into.Cells, m.Cells)
	into.InheritedFamilies = union(into.InheritedFamilies, m.InheritedFamilies)
	into.InheritedColumns = union(into.InheritedColumns, m.InheritedColumns)
	into.Alone = into.Alone || m.Alone
	into.Origin = cmp.Or(into.Origin, m.Origin)
	into.Remove = into.Remove && m.Remove
}

func union[T comparable](a, b []T) []T {
	joined := slices.Clone(a)
	for _, x := range b {
		if !slices.Contains(joined, x) {
			joined = append(joined, x)
		}
	}
	return joined
}
