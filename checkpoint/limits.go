package checkpoint

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Limits bound the loads of a table. An operator's limits are in the table's record and override
// the configured limits. A nil limit overrides nothing.
type Limits struct {
	// RowsPerSecond is how many items one process copies per second; 0 is no limit.
	RowsPerSecond *float64 `json:"rows_per_second,omitempty"`
	// Read is the source's read capacity that all workers together may consume.
	Read *ReadLimit `json:"read,omitempty"`
	// TargetCPU is the CPU load of the target above which loads wait, such as 0.7 for 70 %; 0: not
	// checked.
	TargetCPU *float64 `json:"target_cpu,omitempty"`
	// ChangedAt is when an operator set these limits, on the operator's clock.
	ChangedAt time.Time `json:"changed_at,omitzero"`
}

// ReadLimit is a share of the provisioned read capacity, or read units a second. Zero is no limit.
type ReadLimit struct {
	Share float64 `json:"share,omitempty"` // 0.25 for 25 %
	Units float64 `json:"units,omitempty"`
}

// Over returns the limits of l, and for those that l does not set, the limits of `under`.
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

// ReadUnits returns the limit in read units per second. The argument `provisioned` is the table's
// provisioned read capacity, or 0 if the table is billed per request. ReadUnits returns false if
// there is no limit. A share of 0 units is no limit.
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

// Rows returns the limit in items per second; false if there is none.
func (l Limits) Rows() (float64, bool) {
	if l.RowsPerSecond == nil || *l.RowsPerSecond <= 0 {
		return 0, false
	}
	return *l.RowsPerSecond, true
}

// CPU returns the CPU load of the target above which loads wait; false if it is not checked.
func (l Limits) CPU() (float64, bool) {
	if l.TargetCPU == nil || *l.TargetCPU <= 0 {
		return 0, false
	}
	return *l.TargetCPU, true
}

// SetLimits overrides limits in the table's record with an operator's limits. If `reset` is set, it
// removes all limits from the record.
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
