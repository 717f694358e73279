package checkpoint

import (
	"context"
	"time"
)

// Pause is an operator's request to do nothing for a table until an operator resumes it.
type Pause struct {
	Since  time.Time `json:"since,omitzero"`
	Reason string    `json:"reason,omitempty"` // the operator's own words
}

// Paused reports whether an operator has paused the table.
func (s *TableState) Paused() bool { return !s.Pause.Since.IsZero() }

// Stopped reports whether no worker may work on the table, because of a cutover or a pause.
func (s *TableState) Stopped() bool { return s.Halted() || s.Paused() }

// PauseTable pauses a table. If it is paused already, only the reason changes.
func (l *Ledger) PauseTable(ctx context.Context, source, reason string, now time.Time) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error {
		if !s.Paused() {
			s.Pause.Since = now.UTC()
		}
		s.Pause.Reason = reason
		return nil
	})
}

// ResumeTable resumes a paused table.
func (l *Ledger) ResumeTable(ctx context.Context, source string) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error {
		s.Pause = Pause{}
		return nil
	})
}
