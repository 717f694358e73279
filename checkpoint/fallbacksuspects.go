package checkpoint

import "context"

// SuspectKey is the record of a row whose item may differ from it. The leader of the way back looks
// at the row, and then removes the record.
type SuspectKey struct {
	header
	Key []byte `json:"key"` // the row key: item data, which must not be logged

	counter uint64
}

func (l *Ledger) fallbackSuspects(source string) string { return l.fallbackKey(source) + "/suspect/" }

func (l *Ledger) fallbackSuspectKey(source, key string) string {
	return l.fallbackSuspects(source) + hashOfRow(key)
}

// FallbackSuspects reads the records of a table's suspect rows.
func (l *Ledger) FallbackSuspects(ctx context.Context, source string) ([]SuspectKey, error) {
	rows, err := l.store.Read(ctx, l.fallbackSuspects(source))
	if err != nil {
		return nil, err
	}
	all := make([]SuspectKey, len(rows))
	for i, row := range rows {
		if err := decode(row, &all[i]); err != nil {
			return nil, err
		}
		all[i].counter = row.Counter
	}
	return all, nil
}

// SuspectFallback asks the leader to look at rows, given by their keys. It also writes a record that
// exists, so that the leader looks again at a row that it has looked at before this call.
func (l *Ledger) SuspectFallback(ctx context.Context, source string, keys ...string) error {
	for _, key := range keys {
		if err := l.suspect(ctx, source, key); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) suspect(ctx context.Context, source, key string) error {
	for range tries {
		row, _, err := readRow(ctx, l.store, l.fallbackSuspectKey(source, key))
		if err != nil {
			return err
		}
		s := SuspectKey{Key: []byte(key)}
		done, err := l.swap(ctx, l.store, l.fallbackSuspectKey(source, key), row.Counter, l.stamp(&s.header, &s))
		if done || err != nil {
			return err
		}
	}
	return ErrConflict
}

// ClearSuspect removes the record of a row that the leader has settled or parked. A record that was
// written again after it was read remains.
func (l *Ledger) ClearSuspect(ctx context.Context, source string, s SuspectKey) error {
	_, err := l.swap(ctx, l.store, l.fallbackSuspectKey(source, string(s.Key)), s.counter, nil)
	return err
}
