package engine

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// TestH84_CutDropsAnUnbrokenPrefix: times run out of order, so a change from after the cut may be
// followed by one dated before it. That one must not be dropped, because it may be the newest of
// its item.
func TestH84_CutDropsAnUnbrokenPrefix(t *testing.T) {
	cut := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	page := func(seconds ...int) []cdc.Change {
		var changes []cdc.Change
		for i, s := range seconds {
			changes = append(changes, cdc.Change{Sequence: cdc.SequenceOf(uint64(i + 1)), Time: cut.Add(time.Duration(s) * time.Second)})
		}
		return changes
	}
	at := checkpoint.Progress{Dropping: true}
	if kept := Keep(&at, cut, page(-3, -2, -1)); len(kept) != 0 || !at.Dropping {
		t.Errorf("%d changes from before the cut are kept, dropping %v", len(kept), at.Dropping)
	}
	if kept := Keep(&at, cut, page(-1, 0, -1, 1)); len(kept) != 3 || kept[0].Sequence != cdc.SequenceOf(2) || at.Dropping {
		t.Errorf("%d of 3 changes are kept, dropping %v", len(kept), at.Dropping)
	}
	if kept := Keep(&at, cut, page(-1)); len(kept) != 1 {
		t.Error("a change dated before the cut is dropped after the prefix")
	}
	at, undated := checkpoint.Progress{Dropping: true}, page(-2, -1, -1)
	undated[1].Time = time.Time{}
	if kept := Keep(&at, cut, undated); len(kept) != 2 || at.Dropping {
		t.Errorf("%d changes are kept from one without a time on, dropping %v", len(kept), at.Dropping)
	}
}
