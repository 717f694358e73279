// Package checkpointtest has an in-memory checkpoint.Store and the conformance suite that every
// store must pass.
package checkpointtest

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// Memory is a Store in memory, the reference for other implementations. The zero value is empty.
type Memory struct {
	mu   sync.Mutex
	rows map[string]checkpoint.Row
	// OnSwap, if set, replaces Swap. It may call execute, which makes the real swap, at any time or
	// never.
	OnSwap func(ctx context.Context, key string, execute func() bool) (bool, error)
	// OnRead, if set, is called before rows are read. Read returns its error.
	OnRead func(ctx context.Context, prefix string) error
}

// Clear removes all rows, as if the table were lost.
func (m *Memory) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rows = nil
}

// Read implements checkpoint.Store.
func (m *Memory) Read(ctx context.Context, prefix string) ([]checkpoint.Row, error) {
	if m.OnRead != nil {
		if err := m.OnRead(ctx, prefix); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var rows []checkpoint.Row
	for key, row := range m.rows {
		if strings.HasPrefix(key, prefix) {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b checkpoint.Row) int { return strings.Compare(a.Key, b.Key) })
	return rows, nil
}

// NextKey returns the first key that is not below `from`; false if there is none. OnRead is called with
// `from`.
func (m *Memory) NextKey(ctx context.Context, from string) (key string, found bool, err error) {
	if m.OnRead != nil {
		if err := m.OnRead(ctx, from); err != nil {
			return "", false, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := range m.rows {
		if k >= from && (!found || k < key) {
			key, found = k, true
		}
	}
	return key, found, nil
}

// Swap implements checkpoint.Store.
func (m *Memory) Swap(ctx context.Context, key string, was, next uint64, data []byte) (bool, error) {
	execute := func() bool { return m.swap(key, was, next, data) }
	if m.OnSwap != nil {
		return m.OnSwap(ctx, key, execute)
	}
	return execute(), nil
}

func (m *Memory) swap(key string, was, next uint64, data []byte) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.rows[key].Counter != was {
		return false
	}
	if data == nil {
		delete(m.rows, key)
		return true
	}
	if m.rows == nil {
		m.rows = map[string]checkpoint.Row{}
	}
	m.rows[key] = checkpoint.Row{Key: key, Counter: next, Data: slices.Clone(data)}
	return true
}
