package engine

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// CutOf returns a time. Changes of the shard's lineage from before that time are dropped.
func CutOf(shard checkpoint.Shard, state checkpoint.TableState) time.Time {
	if shard.Cut.After(state.Cut) {
		return shard.Cut
	}
	return state.Cut
}

// Keep drops the first changes of a shard's lineage: those from before the cut. Once a change is
// kept, all later changes are kept. So a later change is kept even if its time is before the cut,
// because times of changes may run backwards (H84).
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
