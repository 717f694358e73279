package checkpoint

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Limits bound the loads of a table. Nil says nothing: an operator's limits, which stand in the
// table's record, are put over the configured ones.
type Limits struct {
	// RowsPerSecond is how many items a process copies in a second; 0 is no limit.
	RowsPerSecond *float64 `json:"rows_per_second,omitempty"`
	// Read is how much of the source's read capacity all workers together consume.
	Read *ReadLimit `json:"read,omitempty"`
	// TargetCPU is the share of the target's CPU above which loads wait, 0.7 for 70 %; 0: not
	// watched.
	TargetCPU *float64 `json:"target_cpu,omitempty"`
	// ChangedAt is when an operator set them, on the operator's clock.
	ChangedAt time.Time `json:"changed_at,omitzero"`
}

// ReadLimit is a share of the provisioned read capacity, or read units a second. Zero is no limit.
type ReadLimit struct {
	Share float64 `json:"share,omitempty"` // 0.25 for 25 %
	Units float64 `json:"units,omitempty"`
}

// Over is l where it says something, and under where it does not.
func (l Limits) Over(under Limits) Limits {
	if l.RowsPerSecond != nil {
		under.RowsPerSecond = l.RowsPerSecond
	}
	if l.Read != nil {
		under.Read = l.Read
	}
	if l.TargetCPU != nil {
		under.TargetCPU = l.TargetCPU
	}
	return under
}

// ReadUnits is the limit in read units a second for a table with so many provisioned ones, 0 if it
// is billed per request; false if there is no limit, which a share of nothing is.
func (l Limits) ReadUnits(provisioned int64) (float64, bool) {
	switch {
	case l.Read == nil:
		return 0, false
	case l.Read.Units > 0:
		return l.Read.Units, true
	}
	units := l.Read.Share * float64(provisioned)
	return units, units > 0
}

// Rows is the limit in items a second; false if there is none.
func (l Limits) Rows() (float64, bool) {
	if l.RowsPerSecond == nil || *l.RowsPerSecond <= 0 {
		return 0, false
	}
	return *l.RowsPerSecond, true
}

// CPU is the share of the target's CPU above which loads wait; false if it is not watched.
func (l Limits) CPU() (float64, bool) {
	if l.TargetCPU == nil || *l.TargetCPU <= 0 {
		return 0, false
	}
	return *l.TargetCPU, true
}

// SetLimits puts an operator's limits over those that stand in the table's record, or with reset
// removes all of them.
func (l *Ledger) SetLimits(ctx context.Context, source string, limits Limits, reset bool) (TableState, error) {
	limits.ChangedAt = task.Now(ctx).UTC()
	return l.UpdateTable(ctx, source, func(s *TableState) error {
		if reset {
			s.Limits = Limits{}
			return nil
		}
		s.Limits = limits.Over(s.Limits)
		s.Limits.ChangedAt = limits.ChangedAt
		return nil
	})
}
