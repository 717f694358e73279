package checkpoint

import (
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// Recheck asks the workers to compare the rows of every change again, from before a full verify
// until a cutover is over. So the final comparison of a large table needs no full read.
type Recheck struct {
	// Verify is the number of the full verify that begins once all open shards are rechecked; 0:
	// nothing is rechecked.
	Verify uint32 `json:"verify,omitempty"`
	// Until is when workers stop, on the service's clock, unless the cutover extends it.
	Until time.Time `json:"until,omitzero"`
}

// Number returns the number of the verify at a time on the service's clock, zero if that is unknown;
// 0: nothing is rechecked any more.
func (r Recheck) Number(now time.Time) uint32 {
	if !r.Until.IsZero() && now.After(r.Until) {
		return 0
	}
	return r.Verify
}

// Rechecked says how far the rows of a shard's changes were compared again.
type Rechecked struct {
	// Verify is the number of the full verify since which they are compared; 0: they are not.
	Verify uint32 `json:"verify,omitempty"`
	// Since is when this began, on the service's clock. It is zero if the shard's first change is
	// included.
	Since time.Time `json:"since,omitzero"`
	// To is the position up to which every row was equal. A worker that acquires the shard compares
	// the rows of later changes again. Through is the same position, if rows count as equal that
	// are missing because their item has expired.
	To      cdc.SequenceNumber `json:"to,omitzero"`
	Through cdc.SequenceNumber `json:"through,omitzero"`
	// Differing is the number of rows that differed at the last two looks.
	Differing int `json:"differing,omitempty"`
	// Lost says why rows were not compared; Verify is 0 then.
	Lost string `json:"lost,omitempty"`
}

// BeginRecheck asks the workers to recheck changes from before the next verify.
func (s *TableState) BeginRecheck(until time.Time) {
	s.Recheck = Recheck{Verify: s.Verify.Number + 1, Until: until}
}
