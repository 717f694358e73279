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
