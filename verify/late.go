package verify

import (
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/transform"
)

// If an application also writes the target, a row may still differ after its second, exact write.
// There are two causes, and neither leaves a stream record (H41). A phantom is a write to the
// target whose write to DynamoDB was rejected or never arrived. A late write reached the target
// after the allowed delay.

// explain sets the reason of a difference if an application also writes the target. The argument
// `late` is how long after a commit the application may write the target. It is 0 if the
// application does not write the target. The caller must have excluded writes in flight. Only the
// finding is read.
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

// outrank explains a difference of a row whose version is above the ledger's generation. Such a row
// rejects every change and every repair. Only the finding is read.
func (f *Finding) outrank(generation uint32) {
	v, err := transform.ParseVersion(string(f.Version))
	if err != nil || generation == 0 || v.Generation() <= generation {
		return
	}
	f.Reason = fmt.Sprintf("its version has generation %d, but this ledger has %d, so the row rejects all changes: another pipeline wrote it, or the "+
		"ledger was restored. Delete the row in Bigtable, then load the table again: replicator backfill redo", v.Generation(), generation)
}
