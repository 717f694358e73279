package checkpoint

import (
	"bytes"
	"slices"
	"sync"
)

// memory caches the records of rows as last decoded. Every worker reads all rows of a table every
// second or two, and most of them have not changed. Comparing their text is many times cheaper than
// decoding it. The memory compares the whole text, not the counter, because counters are not unique
// after a ledger was restored.
type memory[T headed] struct {
	mu   sync.Mutex
	sets map[string][]remembered[T] // by the set of rows that are read together; sorted by key, never changed in place
}

type remembered[T headed] struct {
	key    string
	text   []byte
	record *T
}

func (r remembered[T]) is(row Row) bool { return r.key == row.Key && bytes.Equal(r.text, row.Data) }

// decode returns the records of rows that were read together, sorted by key, and forgets all other
// rows of the set. The records are shallow copies: data that they point to belongs to the memory.
// The rows' text must not change afterwards.
func (m *memory[T]) decode(set string, rows []Row) ([]T, error) {
	m.mu.Lock()
	before := m.sets[set]
	m.mu.Unlock()
	records := make([]T, len(rows))
	if slices.EqualFunc(before, rows, remembered[T].is) {
		for i := range before {
			records[i] = *before[i].record
		}
		return records, nil
	}
	now := make([]remembered[T], len(rows))
	for i, row := range rows {
		for len(before) > 0 && before[0].key < row.Key {
			before = before[1:]
		}
		if len(before) > 0 && before[0].is(row) {
			now[i] = before[0]
		} else {
			now[i] = remembered[T]{row.Key, row.Data, new(T)}
			if err := decode(row, now[i].record); err != nil {
				return nil, err
			}
		}
		records[i] = *now[i].record
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sets == nil {
		m.sets = map[string][]remembered[T]{}
	}
	m.sets[set] = now
	return records, nil
}

// one decodes a single row, as decode does.
func (m *memory[T]) one(row Row) (record T, err error) {
	records, err := m.decode(row.Key, []Row{row})
	if err == nil {
		record = records[0]
	}
	return record, err
}
