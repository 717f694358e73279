package engine

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// CutOf returns the time before which changes of a shard's lineage are dropped.
func CutOf(shard checkpoint.Shard, state checkpoint.TableState) time.Time {
	if shard.Cut.After(state.Cut) {
		return shard.Cut
	}
	return state.Cut
}

// Keep drops the changes that predate the cut, as long as it dropped every earlier change of the
// shard's lineage. Change times may run backwards. So a change after the first kept one is kept
// even if it predates the cut (H84).
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
