package engine

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// CutOf is what the changes of a shard's lineage are dropped before.
func CutOf(shard checkpoint.Shard, state checkpoint.TableState) time.Time {
	if shard.Cut.After(state.Cut) {
		return shard.Cut
	}
	return state.Cut
}

// Keep drops the changes from before the cut, as long as the shard's lineage has had nothing else:
// an unbroken prefix. Times may run backwards, so that a later change may be dated before the cut
// too; it is kept (H84).
func Keep(at *checkpoint.Progress, cut time.Time, changes []cdc.Change) []cdc.Change {
	if !at.Dropping {
		return changes
	}
	for i, c := range changes {
		if !c.Time.Before(cut) {
			at.Dropping = false
			return changes[i:]
		}
	}
	return nil
}
