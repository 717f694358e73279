package sim

import (
	"github.com/dynamodb-bigtable/replicator/sink"
)

// checkTimes: the cells of a change carry its second or, where times ran back, the latest one before it in its lineage (H43); a version that is
// live is at the one constant time, whatever clocks say (H09).
func (t *truth) checkTimes(key string, w Write, after *Row) {
	records := w.Shard.records
	var earliest int64
	for i := w.Shard.trimmed; i < len(records) && records[i].change.Sequence.Compare(w.Sequence) <= 0; i++ {
		earliest = max(earliest, records[i].change.Time.UnixMicro())
	}
	after.Columns(func(family, qualifier string, micros int64, _ string) {
		switch {
		case family == sink.LiveFamily && micros != 0:
			t.m.violate("I8: the version of row %q is at %d µs", key, micros)
		case family == sink.LiveFamily || family == sink.GoneFamily:
		case micros < earliest:
			t.m.violate("I1: cell %s of row %q is at %d µs, before %d", qualifier, key, micros, earliest)
		case micros > w.latest.UnixMicro():
			t.m.violate("I1: cell %s of row %q is at %d µs, after all changes so far, %d", qualifier, key, micros, w.latest.UnixMicro())
		}
	})
}

// checkLoadTimes: the cells of a load carry a time in the second at which the image was read.
func (t *truth) checkLoadTimes(key string, second int64, after *Row) {
	after.Columns(func(family, qualifier string, micros int64, _ string) {
		if family != sink.LiveFamily && family != sink.GoneFamily && micros/1e6 != second {
			t.m.violate("I1: cell %s of row %q is at %d µs, and was read at second %d", qualifier, key, micros, second)
		}
	})
}
