package checkpoint

import (
	"context"
	"time"
)

// DeadLetter is what stands in the dead letter of the topic from which tables are applied.
type DeadLetter struct {
	Messages int       `json:"messages"` // the most that one read found; there may be more
	Since    time.Time `json:"since"`    // of the first read that found one
	SeenAt   time.Time `json:"seen_at"`  // of the last one
}

// deadLetterRow keeps it. There is none while nothing was found.
type deadLetterRow struct {
	header
	DeadLetter
}

// DeadLetterRest is how long nothing may have been found until the dead letter counts as empty: one
// look may find nothing because somebody else looks.
const DeadLetterRest = 5 * time.Minute

func (l *Ledger) deadLetterKey() string { return l.name + "/deadletter" }

// DeadLetter reads what was found in the dead letter; nothing if it is empty, or nobody watches it.
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

// NoteDeadLetter notes that a look at a time found so many messages.
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

// After is what is known after one more look.
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
