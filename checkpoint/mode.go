package checkpoint

import (
	"context"
	"errors"
	"fmt"
)

// Mode says what becomes of the changes of a table before its checkpoint moves.
type Mode string

// The modes.
const (
	Direct Mode = ""      // they are written to the target
	Both   Mode = "both"  // they are published to a topic, and written to the target
	Topic  Mode = "topic" // they are published to a topic, from which appliers write them
)

// Publishes reports whether changes go to a topic.
func (m Mode) Publishes() bool { return m != Direct }

// Writes reports whether whoever reads changes writes them as well.
func (m Mode) Writes() bool { return m != Topic }

// String is the mode's word.
func (m Mode) String() string {
	if m == Direct {
		return "direct"
	}
	return string(m)
}

// ErrMode is returned where a table is worked on in another mode than the ledger says. A process
// of another mode would move checkpoints past what was never published.
var ErrMode = errors.New("the ledger records another mode for the table")

// Admits fails with ErrMode where a process of a mode may not work on the table. Accept lets it
// change the mode.
func (s TableState) Admits(mode Mode, accept bool) error {
	if s.Generation == 0 || s.Apply == mode || accept {
		return nil
	}
	return fmt.Errorf("%w: table %s has mode %s, this process has mode %s", ErrMode, s.Source, s.Apply, mode)
}

// LeftTopic is why a generation begins where a table is not applied from a topic any more.
const LeftTopic = "the table was applied from a topic; unapplied messages of the topic need a load"

// CheckMode makes a table's mode that of this process, until the first generation begins or with
// accept; otherwise it fails with ErrMode if it is another. From then on leases of this table are
// taken only while the ledger holds this mode. Processes of another mode find out when they next
// look at the ledger, and stop. A table that leaves its topic begins a new generation, because
// messages that are not applied yet may never be.
func (l *Ledger) CheckMode(ctx context.Context, source string, mode Mode, accept bool) error {
	state, _, err := l.Table(ctx, source)
	if err != nil {
		return err
	}
	if state.Apply == Topic && mode != Topic && accept && state.Generation > 0 {
		gap := DeclaredGap{Kind: KindAskedFor, Reason: LeftTopic}
		if _, err := l.Raise(ctx, source, state.Generation, gap, func(s *TableState) { s.Apply = mode }); err != nil {
			return err
		}
	}
	_, err = l.UpdateTable(ctx, source, func(s *TableState) error {
		err := s.Admits(mode, accept)
		if err == nil {
			s.Apply = mode
		}
		return err
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.modes[source] = mode
	return nil
}

// checkMode refuses to go on in a mode that another process has replaced.
func (l *Ledger) checkMode(s TableState) error {
	l.mu.Lock()
	mode, checked := l.modes[s.Source]
	l.mu.Unlock()
	if checked {
		return s.Admits(mode, false)
	}
	return nil
}

// number notes where the numbers of a shard's messages begin: with a generation, and with the first
// lease in a mode that publishes. What was read in another mode before was never published, or is
// applied without appliers.
func (s *Shard) number(mode Mode, raised bool) {
	if mode.Publishes() && (raised || s.Apply != mode) {
		s.NumberedFrom = s.Applied
	}
	s.Apply = mode
}
