package checkpoint

import (
	"context"
	"time"
)

// DeadLetter describes the messages in the dead-letter topic of the topic from which tables are
// applied.
type DeadLetter struct {
	Messages int       `json:"messages"` // the largest number that one read found; there may be more
	Since    time.Time `json:"since"`    // time of the first read that found one
	SeenAt   time.Time `json:"seen_at"`  // time of the last read that found one
}

// deadLetterRow is the record of a DeadLetter. The row does not exist if no message was found.
type deadLetterRow struct {
	header
	DeadLetter
}

// DeadLetterRest is how long reads must find no message before the dead-letter topic counts as
// empty. A single read may find none because another process holds the messages.
const DeadLetterRest = 5 * time.Minute

func (l *Ledger) deadLetterKey() string { return l.name + "/deadletter" }

// DeadLetter reads the record of the dead-letter topic. It is the zero value if the topic is empty
// or no process reads it.
func (l *Ledger) DeadLetter(ctx context.Context) (DeadLetter, error) {
	record, _, err := l.deadLetter(ctx)
	return record.DeadLetter, err
}

func (l *Ledger) deadLetter(ctx context.Context) (record deadLetterRow, counter uint64, err error) {
	row, found, err := readRow(ctx, l.store, l.deadLetterKey())
	if err != nil || !found {
		return record, 0, err
	}
	return record, row.Counter, decode(row, &record)
}

// NoteDeadLetter records that a read at the given time found a number of messages.
func (l *Ledger) NoteDeadLetter(ctx context.Context, at time.Time, messages int) error {
	for range tries {
		record, counter, err := l.deadLetter(ctx)
		if err != nil {
			return err
		}
		next := record.DeadLetter.After(at, messages)
		if next == record.DeadLetter {
			return nil
		}
		var data []byte // nil removes the row
		if next != (DeadLetter{}) {
			record.DeadLetter = next
			data = l.stamp(&record.header, &record)
		}
		if done, err := l.swap(ctx, l.store, l.deadLetterKey(), counter, data); err != nil || done {
			return err
		}
	}
	return ErrConflict
}

// After returns the record updated by one more read.
func (d DeadLetter) After(at time.Time, messages int) DeadLetter {
	at = at.UTC()
	switch {
	case messages == 0 && d.Messages > 0 && at.Sub(d.SeenAt) < DeadLetterRest:
		return d
	case messages == 0:
		return DeadLetter{}
	case d.Messages == 0:
		d.Since = at
	}
	d.Messages, d.SeenAt = max(d.Messages, messages), at
	return d
}
