package transform

import (
	"slices"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// What a mapping may do with what one before it left in its rows (H102).

// Sole is the name of the one version that the mapping's items can have in a row, "" for that of a row which is one item's alone;
// false if no item has the row, or several may have cells in it side by side. Whoever writes that version may remove all
// else of ours that stands in the row: no other item of the mapping has anything there.
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
					continue // the condition or a function says that it is no item's
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

// WrittenIn are the families that some item may have cells in, in a row of a target table.
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

// Change is what another mapping makes of the same source table.
type Change struct {
	// NewTables and FormerTables are the target tables that only one of the two writes.
	NewTables, FormerTables []string
	// NewColumns and FormerColumns are the columns that only one of the two writes, as "table family:column", with * for columns of
	// any name and a template for cells.
	NewColumns, FormerColumns []string
	// RowKeys tells that row keys are made in another way, of some items at least.
	RowKeys bool
	// Unattributed are families, as "table family", in which items share rows by the new mapping: of what the former one wrote
	// there it may not be clear whose it is.
	Unattributed []string
}

// ChangeOf compares a mapping with the one that takes its place.
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

// key is how the mapping's first write to a write's table and family makes rows and cells there.
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

// lacking are those of a list that the other one lacks, in their order.
func lacking(list, other []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
}
