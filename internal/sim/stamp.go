package sim

import (
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// stamp is what the cells of a row were last stamped with by a change: its shard, generation and cell time.
type stamp struct {
	shard      *Shard
	generation uint32
	micros     int64
}

// checkTime: the cells of a row never go back in time within a shard, though the times of changes do (H07, H08): whoever reads a row
// with a limit of time must not miss what is in it. A generation may read a shard again from before, and its cells then say so.
func (t *truth) checkTime(key string, v transform.Version, shard *Shard, after *Row) {
	is := stamp{shard: shard, generation: v.Generation()}
	after.Columns(func(family, _ string, micros int64, _ string) {
		if family != sink.LiveFamily && family != sink.GoneFamily {
			is.micros = max(is.micros, micros)
		}
	})
	if is.micros == 0 {
		return // removed
	}
	if was := t.stamps[key]; was.shard == shard && was.generation == is.generation && is.micros < was.micros {
		t.m.violate("I2: the cells of row %q go back by %d microseconds at %s", key, was.micros-is.micros, v)
	}
	t.stamps[key] = is
}
