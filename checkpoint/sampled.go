package checkpoint

import (
	"context"
	"encoding/json"
	"time"
)

// Sampled is the result of the continuous comparison of a table: workers compare a sample of the
// rows that they have just written.
type Sampled struct {
	At       time.Time `json:"at,omitzero"`        // time of the last comparison, on the service's clock
	Compared int64     `json:"compared,omitempty"` // rows compared since the ledger began
	// Differing is how many rows are known to differ. A comparison found each of them, and no later
	// comparison found it equal.
	Differing int `json:"differing,omitempty"`
}

// Mismatched returns how many rows are known to differ, according to the last verify and the
// continuous comparison. It returns false if nothing was compared yet.
func (s TableState) Mismatched() (rows int64, known bool) {
	return s.Verify.Result.Differing() + int64(s.Sampled.Differing), s.Verify.Result.Known() || !s.Sampled.At.IsZero()
}

// MostSampled bounds the recorded differing rows. More differing rows are recorded only after some
// of the recorded rows are repaired.
const MostSampled = 200

// sampledRecord holds the rows that are known to differ.
type sampledRecord struct {
	header
	Source   string            `json:"source"`
	Findings []json.RawMessage `json:"findings,omitempty"` // in the verify package's format; they hold keys
}

func (l *Ledger) sampledKey(source string) string { return l.name + "/sampled/" + source }

// Mismatches returns the rows of a table that differ according to the continuous comparison, each
// in the verify package's format.
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

// Sample records that a number of rows were compared at the given time. It also changes the list of
// differing rows. If another worker was faster, Sample calls change again with a fresh list.
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
			if !s.Sampled.At.Equal(at) { // if equal, an earlier attempt took place
				s.Sampled.Compared += compared
			}
			s.Sampled.At, s.Sampled.Differing = at.UTC(), len(record.Findings)
			return nil
		})
		return state.Sampled, err
	}
	return Sampled{}, ErrConflict
}
