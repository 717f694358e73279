package sim

import (
	"strings"

	"github.com/dynamodb-bigtable/replicator/sink"
)

// checkTimes: the cells of a change carry its second or, where times ran back, the latest one before it in its lineage (H43), unless the image
// itself says otherwise; a version that is live is at the one constant time, whatever clocks say (H09). A put that was made for the row as it was before
// the target was set back leaves there what a load had read later, if it says the same.
func (t *truth) checkTimes(w rowWrite, was string, s *spot, c Write) {
	records := c.Shard.records
	var earliest int64
	for i := c.Shard.trimmed; i < len(records) && records[i].change.Sequence.Compare(c.Sequence) <= 0; i++ {
		earliest = max(earliest, records[i].change.Time.UnixMicro())
	}
	t.eachTime(w, s, func(qualifier string, micros int64) {
		switch {
		case micros < earliest && !t.keeps: // else the value may be there for longer
			t.m.violate("I1: cell %s of row %q is at %d µs, before %d", qualifier, w.row, micros, earliest)
		case micros > c.latest.UnixMicro() && !(t.keeps && t.madeBefore(w, was)):
			t.m.violate("I1: cell %s of row %q is at %d µs, after all changes so far, %d", qualifier, w.row, micros, c.latest.UnixMicro())
		}
	})
	for _, micros := range w.after.Cells(sink.LiveFamily, w.column()) {
		if micros != 0 {
			t.m.violate("I8: the version of row %q is at %d µs", w.row, micros)
		}
	}
}

// checkLoadTimes: the cells of a load carry a time in the second at which the image was read.
func (t *truth) checkLoadTimes(w rowWrite, s *spot, second int64) {
	t.eachTime(w, s, func(qualifier string, micros int64) {
		if micros/1e6 != second && !(t.keeps && micros/1e6 < second) {
			t.m.violate("I1: cell %s of row %q is at %d µs, and was read at second %d", qualifier, w.row, micros, second)
		}
	})
}

// eachTime calls f for the cells that are to have the time of the change or of the load.
func (t *truth) eachTime(w rowWrite, s *spot, f func(qualifier string, micros int64)) {
	if s == nil {
		return
	}
	w.after.cells(func(c *column) {
		at := c.family + ":" + c.qualifier
		if s.content[at] == "" || s.stamps[at] != nil {
			return
		}
		for _, cell := range c.cells {
			f(strings.ToValidUTF8(c.qualifier, "?"), cell.micros)
		}
	})
}
