package model

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// LongSilence is the longest time in which a call gets neither an answer nor an error.
const LongSilence = 4 * time.Minute

// TornBy is the longest time between the reads of two parts of a range.
const TornBy = 20 * time.Second

// read returns the rows of a key range: from the first key that is not below from, while in is
// true. Each row is consistent in itself. Usually all are of one moment. Otherwise rows with higher
// keys are of a later one. With an error, some of the rows may still be returned.
func (b *Bigtable) read(ctx context.Context, op, table, from string, in func(key string) bool) (keys []string, rows []*Row, err error) {
	if b.Fault != nil {
		if err := b.Fault(op, table, ""); err != nil {
			return nil, nil, err
		}
	}
	if b.world.Chance(b.Silent) {
		b.world.Inject("no answer for minutes")
		if err := task.Sleep(ctx, b.world.UpTo(LongSilence)); err != nil {
			return nil, nil, err
		}
		return nil, nil, errUnknown
	}
	if err := task.Sleep(ctx, b.oneWay()); err != nil {
		return nil, nil, err
	}
	if keys, rows, err = b.see(table, from, in); err != nil {
		return nil, nil, err
	}
	broken, torn := b.world.Chance(b.Broken), b.world.Chance(b.Torn)
	if (torn || broken) && len(keys) > 1 {
		n := 1 + b.world.Rand().IntN(len(keys)-1)
		keys, rows = keys[:n:n], rows[:n]
		if !broken {
			if err := task.Sleep(ctx, b.world.UpTo(TornBy)); err != nil {
				return nil, nil, err
			}
			further, rest, err := b.see(table, keys[n-1]+"\x00", in)
			if err != nil {
				return nil, nil, err
			}
			b.world.Inject("rows read at several moments")
			keys, rows = append(keys, further...), append(rows, rest...)
		}
	}
	if err := task.Sleep(ctx, b.oneWay()); err != nil {
		return nil, nil, err
	}
	if broken {
		b.world.Inject("read broken off")
		return keys, rows, errUnknown
	}
	return keys, rows, nil
}

// see returns the current rows of a range.
func (b *Bigtable) see(table, from string, in func(key string) bool) ([]string, []*Row, error) {
	t := b.Tables[table]
	if t == nil {
		return nil, nil, errNoSuchTable
	}
	keys := keyRange(b.Rows(table), from, in)
	rows := make([]*Row, len(keys))
	for i, key := range keys {
		rows[i] = t.rows[key]
	}
	return keys, rows, nil
}
