package checkpoint

import (
	"context"
	"encoding/json"
	"time"
)

// Sampled is what the continuous comparison of a table came to: workers compare a sample of what
// they have just applied.
type Sampled struct {
	At       time.Time `json:"at,omitzero"`        // of the last comparison, on the service's clock
	Compared int64     `json:"compared,omitempty"` // rows, ever
	// Differing is how many rows are known to differ: a comparison found them, and no later one
	// found them equal.
	Differing int `json:"differing,omitempty"`
}

// Mismatched is how many rows are known to differ, by the last verify and by what was sampled; false
// if nothing was compared yet.
func (s TableState) Mismatched() (rows int64, known bool) {
	return s.Verify.Result.Differing() + int64(s.Sampled.Differing), s.Verify.Result.Known() || !s.Sampled.At.IsZero()
}

// MostSampled bounds the rows that are remembered to differ. More are not: those that are have to be
// mended first.
const MostSampled = 200

// sampledRecord keeps what is known to differ.
type sampledRecord struct {
	header
	Source   string            `json:"source"`
	Findings []json.RawMessage `json:"findings,omitempty"` // in a form of their own; they hold keys
}

func (l *Ledger) sampledKey(source string) string { return l.name + "/sampled/" + source }

// Mismatches are the rows of a table that continuous comparison knows to differ, each in a form of
// its own.
func (l *Ledger) Mismatches(ctx context.Context, source string) ([]json.RawMessage, error) {
	record, _, err := l.sampled(ctx, source)
	return record.Findings, err
}

func (l *Ledger) sampled(ctx context.Context, source string) (sampledRecord, uint64, error) {
	row, found, err := readRow(ctx, l.store, l.sampledKey(source))
	record := sampledRecord{Source: source}
	if err != nil || !found {
		return record, 0, err
	}
	return record, row.Counter, decode(row, &record)
}

// Sample notes that so many rows were compared at a time, and changes what is known to differ.
// Change is called again with a fresh list whenever another worker was faster.
func (l *Ledger) Sample(ctx context.Context, source string, at time.Time, compared int64, change func([]json.RawMessage) []json.RawMessage) (Sampled, error) {
	for range tries {
		record, counter, err := l.sampled(ctx, source)
		if err != nil {
			return Sampled{}, err
		}
		before := len(record.Findings)
		record.Findings = change(record.Findings)
		record.Findings = record.Findings[:min(len(record.Findings), MostSampled)]
		if before+len(record.Findings) > 0 {
			done, err := l.swap(ctx, l.store, l.sampledKey(source), counter, l.stamp(&record.header, &record))
			if err != nil {
				return Sampled{}, err
			}
			if !done {
				continue
			}
		}
		state, err := l.UpdateTable(ctx, source, func(s *TableState) error {
			if !s.Sampled.At.Equal(at) { // else an attempt of before was executed
				s.Sampled.Compared += compared
			}
			s.Sampled.At, s.Sampled.Differing = at.UTC(), len(record.Findings)
			return nil
		})
		return state.Sampled, err
	}
	return Sampled{}, ErrConflict
}
