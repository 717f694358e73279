package transform

import (
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
)

// MaxPastCells is the maximum number of cells of earlier images of one page in a mutation. If a
// page has more for one item, the oldest images are dropped.
const MaxPastCells = MaxRowCells / 2

// recall sets the fields Past and Before in the puts of an item. They say which cells of the item
// the row would hold if the page's changes were applied one by one. Past has one entry for each
// change except the newest: the cells after that change. Before has the cells before the first one.
func (m *Mapping) recall(enc *encoder, changes []cdc.Change, h *history, rows []RowMutation) {
	for i := range rows {
		row := &rows[i]
		if row.Remove {
			continue
		}
		total := 0
		for n := len(h.moments) - 2; n >= 0; n-- {
			at := h.moments[n]
			cells := m.then(enc, &changes[at.change], row, at.micros)
			if total += len(cells); total > MaxPastCells {
				break
			}
			row.Past = append(row.Past, cells)
		}
		slices.Reverse(row.Past)
		if len(row.Past) == len(h.moments)-1 {
			row.Before = m.had(enc, changes[h.moments[0].change].Old, row, 0, 0)
		}
	}
}

// then returns the cells that a change put into a row. It returns nil if the item did not map to
// the row or could not be mapped, so that its cells were removed.
func (m *Mapping) then(enc *encoder, c *cdc.Change, row *RowMutation, micros int64) []Cell {
	if c.Event == cdc.Remove {
		return nil
	}
	return m.had(enc, c.New, row, c.Time.UnixMicro(), micros)
}

// had returns the cells of an image in a row. It returns nil if the image does not exist, has no
// cells in the row, or cannot be mapped as a whole.
func (m *Mapping) had(enc *encoder, image attribute.Item, row *RowMutation, written, micros int64) []Cell {
	if !image.Exists() {
		return nil
	}
	var s scratch
	h := history{item: row.Item}
	if h.add(m, &s, image, 0, true) != nil {
		return nil
	}
	puts, err := m.puts(enc, image, &h, time.UnixMicro(written), micros)
	if err != nil {
		return nil
	}
	for _, placed := range m.mutations(nil, RowMutation{Item: h.item}, &h, puts) {
		if placed.Table == row.Table && placed.Row == row.Row && placed.Owner == row.Owner {
			return placed.Cells
		}
	}
	return nil
}

// history checks the requirements of keep_versions on families and encodings.
func (c *compiler) history() {
	if !c.spec.KeepVersions {
		return
	}
	if c.spec.TTL.Attribute != "" && c.spec.TTL.Expire == ExpireByGC {
		c.report(Finding{Problem: NoHistory, Rule: -1, Write: -1, Field: "keep_versions",
			What:  "keep_versions does not work with expire: gc",
			Cause: "a cell has only one time. keep_versions uses the time of the change, and expire: gc the time of the expiry",
			Fix:   "write expire: follow_deletes, or remove keep_versions"})
	}
	checked := map[string]bool{}
	for _, p := range c.placed() {
		for i := range p.targets {
			if t := &p.targets[i]; t.as == AsCells {
				c.report(Finding{Problem: NoHistory, Rule: p.at.rule, Write: p.at.write, Field: "columns", Name: t.attribute,
					What:  "as: cells does not work with keep_versions",
					Cause: "the cells of its column are the elements of the list, not former values",
					Fix:   "write as: json for this attribute, or remove keep_versions"})
			}
		}
		for _, family := range p.written() {
			f := c.families[family]
			if f == nil || checked[family] || f.Aggregate != NoAggregate {
				continue
			}
			checked[family] = true
			c.keepsHistory(f)
		}
	}
}

// keepsHistory checks the garbage collection rule of a family whose older cells are kept.
func (c *compiler) keepsHistory(f *Family) {
	switch versions, limited := f.GC.keeps(); {
	case f.GC.hasAge():
		c.report(Finding{Problem: NoHistory, Rule: -1, Write: -1, Field: "families", Name: f.Name,
			What:  fmt.Sprintf("keep_versions needs families without an age rule, but family %s (%s) has one", f.Name, f.GC),
			Cause: "an age rule would collect a value that has not changed for that long",
			Fix:   fmt.Sprintf("write %s: maxversions=10, or %s: never", f.Name, f.Name)})
	case limited && versions == 1:
		c.report(Finding{Problem: KeepsNothing, Warning: true, Rule: -1, Write: -1, Field: "families", Name: f.Name,
			What:  fmt.Sprintf("keep_versions keeps nothing in family %s (%s)", f.Name, f.GC),
			Cause: "its garbage collection rule keeps only the newest cell of each column",
			Fix:   fmt.Sprintf("write %s: maxversions=10 for the ten newest values of each column, or %s: never for all", f.Name, f.Name)})
	}
}
