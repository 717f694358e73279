package fallback

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// This file looks at rows that a comparison suspects. The comparison writes their keys to the
// ledger, because only the leader may write items.

// suspect is a row from the ledger whose look is not over. Its track has one position, which is
// settled by a look that begins after the record was read.
type suspect struct {
	record checkpoint.SuspectKey
	track  track
}

// examine takes over the suspects from the ledger, and removes the records of those that are settled
// or parked. The ledger keeps the others, so a successor looks at them.
func (r *term) examine(ctx context.Context) error {
	now := task.Mono(ctx)
	if r.examined > 0 && now-r.examined < r.times.Suspects {
		return nil
	}
	r.examined = now
	for _, key := range slices.Sorted(maps.Keys(r.suspects)) {
		s := r.suspects[key]
		r.dirty.mu.Lock()
		over := s.track.settled() != nil
		r.dirty.mu.Unlock()
		if !over {
			continue
		}
		if err := r.Ledger.ClearSuspect(ctx, r.Source, s.record); err != nil {
			return err
		}
		delete(r.suspects, key)
	}
	records, err := r.Ledger.FallbackSuspects(ctx, r.Source)
	if err != nil {
		return err
	}
	for _, record := range records {
		key := string(record.Key)
		if r.suspects[key] != nil || r.dirty.full() {
			continue
		}
		s := &suspect{record: record}
		r.suspects[key] = s
		r.dirty.record(&s.track, "", time.Time{}, &key)
	}
	return nil
}
