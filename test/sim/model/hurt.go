package model

// Hurt replaces a row, or removes it, without a request, so that no checker notices. The returned
// function restores the old row, unless the row was written meanwhile.
func (b *Bigtable) Hurt(table, key string, row *Row) (undo func()) {
	t := b.Tables[table]
	before := t.rows[key]
	if row == nil {
		row = &Row{}
	}
	t.put(key, row)
	return func() {
		if now := t.rows[key]; now != row && (now != nil || len(row.Cols) > 0) {
			return
		}
		if before == nil {
			before = &Row{}
		}
		t.put(key, before)
	}
}
