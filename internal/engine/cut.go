package engine

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// CutOf returns the time before which changes of the shard's lineage are dropped.
func CutOf(shard checkpoint.Shard, state checkpoint.TableState) time.Time {
	if shard.Cut.After(state.Cut) {
		return shard.Cut
	}
	return state.Cut
}

// Keep drops the changes from before the cut, which are the first changes of a shard's lineage.
// Once a change is kept, all later changes are kept too. Times of changes may run backwards (H84),
// so a later change may have a time before the cut. A change without a time is kept, because
// nothing shows that it is old.
func Keep(at *checkpoint.Progress, cut time.Time, changes []cdc.Change) []cdc.Change {
	if !at.Dropping {
		return changes
	}
	for i, c := range changes {
		if c.Time.IsZero() || !c.Time.Before(cut) {
			at.Dropping = false
			return changes[i:]
		}
	}
	return nil
}
