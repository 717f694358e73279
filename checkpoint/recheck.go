package checkpoint

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// Recheck asks the workers to compare the rows of every change again. The comparison begins before
// a full verify and lasts until a cutover is over. So the final comparison of a large table needs
// no full read.
type Recheck struct {
	// Verify is the number of the full verify that begins once all open shards are rechecked; 0:
	// nothing is rechecked.
	Verify uint32 `json:"verify,omitempty"`
	// Until is when workers stop comparing rows again, on the service's clock. The cutover may
	// extend it.
	Until time.Time `json:"until,omitzero"`
}

// Number returns the number of the verify. It returns 0 if there is no recheck, or if the recheck
// is over. The argument `now` is on the service's clock; zero if that clock is unknown.
func (r Recheck) Number(now time.Time) uint32 {
	if !r.Until.IsZero() && now.After(r.Until) {
		return 0
	}
	return r.Verify
}

// Rechecked says up to which change the rows of a shard's changes were compared again.
type Rechecked struct {
	// Verify is the number of the full verify for which rows are compared again; 0 means that no
	// rows are.
	Verify uint32 `json:"verify,omitempty"`
	// Since is when this comparison began for the shard, on the service's clock. It is zero if the
	// comparison includes the shard's first change.
	Since time.Time `json:"since,omitzero"`
	// To is the position up to which every row was equal. A worker that acquires the shard compares
	// the rows of later changes again. Through is the same position under a weaker rule: a row that
	// is missing because its item has expired counts as equal.
	To      cdc.SequenceNumber `json:"to,omitzero"`
	Through cdc.SequenceNumber `json:"through,omitzero"`
	// Differing is the number of rows that differed in both of the last two comparisons.
	Differing int `json:"differing,omitempty"`
	// Lost explains why rows were not compared. If it is set, Verify is 0.
	Lost string `json:"lost,omitempty"`
}

// BeginRecheck asks the workers to compare the rows of changes again, beginning before the next
// verify.
func (s *TableState) BeginRecheck(until time.Time) {
	s.Recheck = Recheck{Verify: s.Verify.Number + 1, Until: until}
}
