package standing

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/test/known"
)

// Nothing counts as applied after the end of a shard whose children are not listed yet, however far
// another shard is read.
func TestAppliedToEndsWhereChildrenAreNotListed(t *testing.T) {
	now := time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)
	table := checkpoint.TableState{Label: "L", Generation: 1, Adopted: 1, Listed: 1}
	done := checkpoint.Shard{ID: "d", Label: "L", State: checkpoint.Done, DoneAt: now.Add(-2 * time.Minute), EventTime: now.Add(-3 * time.Minute), Hop: cdc.RootHop, Generation: 1}
	other := checkpoint.Shard{ID: "o", Label: "L", State: checkpoint.Reading, Position: cdc.SequenceOf(1), EventTime: now.Add(-time.Second), AppliedTo: now, Hop: cdc.RootHop, Generation: 1}
	to := AppliedTo(table, []checkpoint.Shard{done, other})
	known.Defect(t, 45, "applied to 10:00, and the children of a shard that ended at 09:58 are not listed",
		known.Expect(!to.After(done.DoneAt), "applied to %s, and the children of a shard that ended at %s are not listed", to.Format("15:04"), done.DoneAt.Format("15:04")))
}
