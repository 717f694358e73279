package checkpoint

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// ParkedKey is the record of a row that the way back cannot carry to the source.
type ParkedKey struct {
	header
	Key    []byte    `json:"key"` // the row key: item data, which must not be logged
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

func (l *Ledger) fallbackParked(source string) string { return l.fallbackKey(source) + "/parked/" }

func (l *Ledger) fallbackParkedKey(source, key string) string {
	return l.fallbackParked(source) + hashOfRow(key)
}

// hashOfRow names a row in keys of the ledger, which commands show.
func hashOfRow(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16])
}

// FallbackParked reads the records of a table's parked rows.
func (l *Ledger) FallbackParked(ctx context.Context, source string) ([]ParkedKey, error) {
	rows, err := l.store.Read(ctx, l.fallbackParked(source))
	if err != nil {
		return nil, err
	}
	all := make([]ParkedKey, len(rows))
	for i, row := range rows {
		if err := decode(row, &all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// ParkFallback writes the record of a parked row.
func (l *Ledger) ParkFallback(ctx context.Context, source, key, reason string) error {
	for range tries {
		row, found, err := readRow(ctx, l.store, l.fallbackParkedKey(source, key))
		if err != nil {
			return err
		}
		p := ParkedKey{Key: []byte(key), Reason: reason, Since: task.Now(ctx).UTC()}
		if found {
			var was ParkedKey
			if err := decode(row, &was); err != nil || was.Reason == reason {
				return err
			}
			p.Since = was.Since
		}
		done, err := l.swap(ctx, l.store, l.fallbackParkedKey(source, key), row.Counter, l.stamp(&p.header, &p))
		if done || err != nil {
			return err
		}
	}
	return ErrConflict
}

// HealFallback removes the record of a parked row.
func (l *Ledger) HealFallback(ctx context.Context, source, key string) error {
	for range tries {
		row, found, err := readRow(ctx, l.store, l.fallbackParkedKey(source, key))
		if err != nil || !found {
			return err
		}
		done, err := l.swap(ctx, l.store, row.Key, row.Counter, nil)
		if done || err != nil {
			return err
		}
	}
	return ErrConflict
}
