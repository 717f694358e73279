package checkpoint

import (
	"context"
	"slices"
	"time"
)

// openShards is the record of when listings last showed each shard of a stream open. It is a row of its own, written by the coordinator
// alone: in the shards' rows it would take the leases of their owners away, because every write of a row raises its counter.
type openShards struct {
	header
	Label string               `json:"label"`
	Open  map[string]time.Time `json:"open"` // by shard id
	// At is when the last whole listing was of, whose shards have their rows.
	At time.Time `json:"at,omitzero"`
}

// Listings are what whole listings of a stream have shown, on the service's clock.
type Listings struct {
	At   time.Time            // when the last one was of; zero before the first
	Open map[string]time.Time // when each shard was last shown without an end, by its id
}

func (l *Ledger) openKey(source string) string { return l.name + "/open/" + source }

// Listings are those of a stream that were noted: none if NoteOpen was last called for another one.
func (l *Ledger) Listings(ctx context.Context, source, label string) (Listings, error) {
	seen, _, err := l.seenOpen(ctx, source)
	if err != nil || seen.Label != label {
		return Listings{}, err
	}
	return Listings{At: seen.At, Open: seen.Open}, nil
}

// ListingsFor are the listings of a table's stream where one of its shards needs them to be judged:
// its children are unknown, or it was not read yet. It is the zero value where none does.
func (l *Ledger) ListingsFor(ctx context.Context, source string, table TableState, shards []Shard) (Listings, error) {
	unread := func(s Shard) bool { return !s.Finished() && s.ReadAt.IsZero() }
	if len(Unfollowed(table, shards, time.Time{})) == 0 && !slices.ContainsFunc(shards, unread) {
		return Listings{}, nil
	}
	return l.Listings(ctx, source, table.Label)
}

func (l *Ledger) seenOpen(ctx context.Context, source string) (openShards, uint64, error) {
	row, found, err := readRow(ctx, l.store, l.openKey(source))
	if err != nil || !found {
		return openShards{}, 0, err
	}
	seen, err := l.open.one(row)
	return seen, row.Counter, err
}

// NoteOpen notes a whole listing of the stream, and the shards that it showed without an end at the given time. Those that it did not are kept
// while known: their children may not be leased yet. The rows of all shards that it showed were created before.
func (l *Ledger) NoteOpen(ctx context.Context, source, label string, open []string, at time.Time, known map[string]bool) error {
	for range tries {
		seen, counter, err := l.seenOpen(ctx, source)
		if err != nil {
			return err
		}
		if seen.Label != label {
			seen = openShards{Label: label}
		}
		next := map[string]time.Time{}
		for id, t := range seen.Open {
			if known[id] {
				next[id] = t
			}
		}
		if at.IsZero() {
			open = nil // nothing is claimed by a listing that does not say when it was given
		}
		for _, id := range open {
			next[id] = later(next[id], at.UTC())
		}
		seen.Open, seen.At = next, later(seen.At, at.UTC())
		done, err := l.swap(ctx, l.store, l.openKey(source), counter, l.stamp(&seen.header, &seen))
		if err != nil || done {
			return err
		}
	}
	return ErrConflict
}
