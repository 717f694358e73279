package sim

// checkHistory: of columns that keep what they were before each cell says something else than the one before it (I1). A value that is written again
// would have been there since later than it was, and would take the place of an older one where garbage collection keeps so many.
func (t *truth) checkHistory(id rowID, after *Row) {
	if !t.keeps {
		return
	}
	after.cells(func(c *column) {
		for i := 1; i < len(c.cells) && !isOurs(c.family); i++ {
			if c.cells[i].value == c.cells[i-1].value {
				t.m.violate("I1: column %s:%s of row %q holds one value at %d and again at %d", c.family, c.qualifier, id.row, c.cells[i].micros, c.cells[i-1].micros)
			}
		}
	})
}
