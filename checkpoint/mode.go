package checkpoint

import (
	"context"
	"errors"
	"fmt"
)

// Mode is where a table's changes go before its checkpoints move.
type Mode string

// The modes.
const (
	Direct Mode = ""      // changes are written to the target
	Both   Mode = "both"  // changes are published to a topic and written to the target
	Topic  Mode = "topic" // changes are published to a topic, from which appliers write them
)

// Publishes reports whether changes go to a topic.
func (m Mode) Publishes() bool { return m != Direct }

// Writes reports whether the process that reads changes also writes them to the target.
func (m Mode) Writes() bool { return m != Topic }

// String returns the mode's word.
func (m Mode) String() string {
	if m == Direct {
		return "direct"
	}
	return string(m)
}

// ErrMode is returned if a process works on a table in a mode that differs from the ledger's. Such
// a process would move checkpoints past changes that were never published.
var ErrMode = errors.New("the ledger records another mode for the table")

// Admits returns ErrMode if a process with the given mode may not work on the table. If `accept` is
// set, the process may change the mode.
func (s TableState) Admits(mode Mode, accept bool) error {
	if s.Generation == 0 || s.Apply == mode || accept {
		return nil
	}
	return fmt.Errorf("%w: table %s has mode %s, this process has mode %s", ErrMode, s.Source, s.Apply, mode)
}

// LeftTopic is the reason of the generation that begins when a table is no longer applied from a
// topic.
const LeftTopic = "the table was applied from a topic; unapplied messages of the topic need a load"

// CheckMode compares a table's mode with the mode of this process. Before the first generation, or
// if `accept` is set, it stores the process's mode. Otherwise it returns ErrMode if the two modes
// differ. After CheckMode, this process takes leases of the table only while the ledger holds this
// mode. Processes with another mode stop when they next read the ledger. A table that leaves its
// topic begins a new generation, because unapplied messages may never be applied.
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

// checkMode returns ErrMode if another process has replaced the mode that this process checked.
func (l *Ledger) checkMode(s TableState) error {
	l.mu.Lock()
	mode, checked := l.modes[s.Source]
	l.mu.Unlock()
	if checked {
		return s.Admits(mode, false)
	}
	return nil
}

// number sets where the numbers of a shard's messages begin. They begin with a new generation, and
// with the first lease in a mode that publishes. Changes that were read earlier in another mode
// were never published, or need no appliers.
func (s *Shard) number(mode Mode, raised bool) {
	if mode.Publishes() && (raised || s.Apply != mode) {
		s.NumberedFrom = s.Applied
	}
	s.Apply = mode
}
