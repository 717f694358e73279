package switchover

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	defects "github.com/dynamodb-bigtable/replicator/test/known"
)

// A final verify finds a change that never arrived since the last full one. Of a large table it reads
// the rows with new cells alone today, and a row that lost its change has none.
func TestAFinalVerifyFindsWhatNeverArrived(t *testing.T) {
	full := checkpoint.VerifyResult{BegunAt: time.Date(2026, 11, 26, 11, 0, 0, 0, time.UTC), EndedAt: time.Date(2026, 11, 26, 11, 30, 0, 0, time.UTC)}
	since := finalScope(52_000, 20*time.Second, full)
	defects.Defect(t, 46, "rows without new cells since 10:59 are not compared",
		defects.Expect(since.IsZero(), "rows without new cells since %s are not compared", since.Format("15:04")))
}
