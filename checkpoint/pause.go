package checkpoint

import (
	"context"
	"time"
)

// Pause is an operator's word that nothing is done for a table until another one lets it go on.
type Pause struct {
	Since  time.Time `json:"since,omitzero"`
	Reason string    `json:"reason,omitempty"` // the operator's own words
}

// Paused reports whether an operator has paused the table.
func (s *TableState) Paused() bool { return !s.Pause.Since.IsZero() }

// Stopped tells whether no worker is to work on the table, because of a cutover or of an operator.
func (s *TableState) Stopped() bool { return s.Halted() || s.Paused() }

// PauseTable pauses a table; one that is paused stays so since it was, for the new reason.
func (l *Ledger) PauseTable(ctx context.Context, source, reason string, now time.Time) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error {
		if !s.Paused() {
			s.Pause.Since = now.UTC()
		}
		s.Pause.Reason = reason
		return nil
	})
}

// ResumeTable lets a paused table go on.
func (l *Ledger) ResumeTable(ctx context.Context, source string) (TableState, error) {
	return l.UpdateTable(ctx, source, func(s *TableState) error {
		s.Pause = Pause{}
		return nil
	})
}
