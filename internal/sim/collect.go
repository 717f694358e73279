package sim

import (
	"slices"
	"time"
)

// Collect removes cells of a family that are older than age by the server's clock, as garbage collection does: each of them
// now, or, just as likely, some other time (H28).
func (b *Bigtable) Collect(table, family string, age time.Duration) {
	t := b.tables[table]
	if t == nil {
		return
	}
	oldest := b.world.Now().Add(b.ServerSkew - age).UnixMicro()
	for _, key := range b.Rows(table) {
		if !slices.ContainsFunc(t.rows[key].columns, func(c column) bool {
			return c.family == family && c.cells[len(c.cells)-1].micros < oldest
		}) || b.world.Rand().IntN(2) == 0 {
			continue
		}
		b.world.Inject("tombstone collected")
		b.world.Tracef("collects what is old of %q", key)
		row := t.rows[key].clone()
		for i := range row.columns {
			if c := &row.columns[i]; c.family == family {
				c.cells = slices.DeleteFunc(c.cells, func(cell modelCell) bool { return cell.micros < oldest })
			}
		}
		row.columns = slices.DeleteFunc(row.columns, func(c column) bool { return len(c.cells) == 0 })
		t.put(key, row)
	}
}
