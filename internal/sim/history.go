package sim

import "slices"

// checkHistory: of columns that keep what they were before each cell says something else than the one before it (I1). A value that is written again
// would have been there since later than it was, and would take the place of an older one where garbage collection keeps so many. A put that was made for
// the row as it was before the target was lost, which is declared, knows nothing of the cells it finds.
func (t *truth) checkHistory(w rowWrite, was string) {
	if !t.keeps || t.madeBefore(w, was) {
		return
	}
	w.after.cells(func(c *column) {
		if was := w.before.column(c.family, c.qualifier); isOurs(c.family) || was != nil && slices.Equal(was.cells, c.cells) {
			return
		}
		for i := 1; i < len(c.cells); i++ {
			if c.cells[i].value == c.cells[i-1].value {
				t.m.violate("I1: column %s:%s of row %q holds one value at %d and again at %d", c.family, c.qualifier, w.row, c.cells[i].micros, c.cells[i-1].micros)
			}
		}
	})
}

// madeBefore tells whether a write may have been made for the row as it was before the target was lost, restored or exchanged.
func (t *truth) madeBefore(w rowWrite, was string) bool {
	return t.forgotten && (was == "" || w.version.Generation() <= t.lostIn)
}
