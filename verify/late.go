package verify

import (
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/transform"
)

// While an application writes the target too, a difference that stays after the second, exact assertion
// is of one of two kinds, and no record of the stream leads to either (H41): a phantom, which DynamoDB
// refused or never saw, or a write that came later than the delay allows.

// explain names a difference of a table that an application writes too, which may do so up to a delay
// after its commit; 0: it does not. What is under way is no finding by now. It is pure.
func (f *Finding) explain(late time.Duration) {
	if late == 0 {
		return
	}
	_, err := transform.ParseVersion(string(f.Version))
	settled := err == nil && f.Version.Count() != transform.CountTimestamped
	switch later := fmt.Sprintf("later than dual_writes.settle, %s after its commit", late); {
	case f.Version == "" && f.Kind == Extra:
		f.Reason = "a phantom: the application wrote the row, and DynamoDB has no such item"
	case f.Version == "" && f.Kind != Foreign:
		f.Reason = "the application deleted or wrote the whole row " + later
	case f.Kind == Extra && settled && !f.Live:
		f.Reason = "the application wrote the row after the item was removed, " + later + ", or as a phantom, which DynamoDB refused"
	case f.Kind == Different && settled:
		f.Reason = "the application wrote the row " + later + ", or as a phantom, which DynamoDB refused"
	}
}

// outrank explains a difference of a row whose version is above the ledger's generation: such a row
// refuses every change and every repair. It is pure.
func (f *Finding) outrank(generation uint32) {
	v, err := transform.ParseVersion(string(f.Version))
	if err != nil || generation == 0 || v.Generation() <= generation {
		return
	}
	f.Reason = fmt.Sprintf("its version is of generation %d, and this ledger's is %d, so that the row refuses all changes: another pipeline wrote it, or the "+
		"ledger was restored. Delete the row in Bigtable, then load the table again: replicator backfill redo", v.Generation(), generation)
}
