package transform

import (
	"slices"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// This file says what a mapping may do with cells that an earlier mapping left in its rows (H102).

// Sole returns the name of the only version that the mapping's items can have in a row. The name is
// "" if the row belongs to one item. It returns false if no item maps to the row, or if several
// items may have cells in it. A writer of that version may remove every other cell of replicator in
// the row, because no other item of the mapping has cells there.
func (m *Mapping) Sole(table, row string) (owner string, ok bool) {
	for _, r := range m.rules {
		for _, w := range r.writes {
			if w.table != table || !w.fits(m, r, row, attribute.Item{}) {
				continue
			}
			name := ""
			if w.ownVersion {
				keys, inverts := w.invert(m, r, row)
				if w.folded || !inverts {
					return "", false
				}
				if !w.fits(m, r, row, keys) {
					continue // the condition or a function rules out that an item has it
				}
				name = m.ItemKey(keys)
			}
			if ok && name != owner {
				return "", false
			}
			owner, ok = name, true
		}
	}
	return owner, ok
}

// WrittenIn returns the families in which some item may have cells, in a row of a target table.
func (m *Mapping) WrittenIn(table, row string) []string {
	var families []string
	for _, r := range m.rules {
		for _, w := range r.writes {
			if w.table == table && w.fits(m, r, row, attribute.Item{}) {
				families = union(families, w.written())
			}
		}
	}
	slices.Sort(families)
	return families
}

// Change is the difference between two mappings of one source table.
type Change struct {
	// NewTables and FormerTables are the target tables that only one of the two mappings writes.
	NewTables, FormerTables []string
	// NewColumns and FormerColumns are the columns that only one of the two mappings writes, as
	// "table family:column". For columns of any name, the column is *. For cells, it is a template.
	NewColumns, FormerColumns []string
	// RowKeys reports that at least some items get other row keys.
	RowKeys bool
	// Unattributed lists families, as "table family", in which items share rows under the new
	// mapping. Cells that the former mapping wrote there may not be attributable to an item.
	Unattributed []string
}

// ChangeOf compares a mapping with its successor.
func ChangeOf(former, present *Mapping) Change {
	c := Change{
		NewTables: lacking(present.Tables(), former.Tables()), FormerTables: lacking(former.Tables(), present.Tables()),
		NewColumns: lacking(present.columns(), former.columns()), FormerColumns: lacking(former.columns(), present.columns()),
	}
	c.RowKeys = len(lacking(present.rowKeys(), former.rowKeys())) > 0 || len(lacking(former.rowKeys(), present.rowKeys())) > 0
	for _, r := range present.rules {
		for _, w := range r.writes {
			for _, family := range w.written() {
				if at := w.table + " " + family; w.folded && former.writes(w.table, family) && !slices.Contains(c.Unattributed, at) && former.key(w) != present.key(w) {
					c.Unattributed = append(c.Unattributed, at)
				}
			}
		}
	}
	return c
}

// key returns the templates of row and cell in the mapping's first write to the table and family
// that the write `like` has.
func (m *Mapping) key(like *write) string {
	for _, r := range m.rules {
		for _, w := range r.writes {
			if w.table == like.table && w.folded && w.family == like.family {
				return w.key()
			}
		}
	}
	return ""
}

func (w *write) key() string {
	text := w.table + " "
	if w.template != nil {
		text += w.template.Canonical()
	}
	if w.folded {
		text += " " + w.family + ":" + w.cell.Qualifier.Canonical()
	}
	return text
}

func (m *Mapping) rowKeys() []string {
	var keys []string
	for _, r := range m.rules {
		for _, w := range r.writes {
			keys = append(keys, w.key())
		}
	}
	return keys
}

func (m *Mapping) columns() []string {
	var columns []string
	add := func(w *write, family, column string) {
		if at := w.table + " " + family + ":" + column; !slices.Contains(columns, at) {
			columns = append(columns, at)
		}
	}
	for _, r := range m.rules {
		for _, w := range r.writes {
			if w.folded {
				add(w, w.family, w.cell.Qualifier.Canonical())
			}
			for i := range w.targets {
				if t := &w.targets[i]; !t.drop {
					at := t.column()
					add(w, at.Family, at.Qualifier)
				}
			}
			if w.star != nil {
				add(w, w.star.family, "*")
			}
		}
	}
	slices.Sort(columns)
	return columns
}

// lacking returns the elements of `list` that `other` lacks, in their order.
func lacking(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}
