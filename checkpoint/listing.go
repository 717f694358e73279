package checkpoint

import (
	"context"
	"slices"
	"time"
)

// openShards records, for each shard of a stream, when a listing last showed the shard as open. It
// has its own row, which only the coordinator writes. Writing these times into the shards' rows
// would end their owners' leases, because every write of a row raises its counter.
type openShards struct {
	header
	Label string               `json:"label"`
	Open  map[string]time.Time `json:"open"` // by shard id
	// At is the time of the last complete listing. Every shard that it showed has a row.
	At time.Time `json:"at,omitzero"`
}

// Listings are the results of complete listings of a stream, on the service's clock.
type Listings struct {
	At   time.Time            // time of the last complete listing; zero before the first
	Open map[string]time.Time // when each shard was last listed as open, by its id
}

func (l *Ledger) openKey(source string) string { return l.name + "/open/" + source }

// Listings returns the recorded listings of a stream. It returns none if NoteOpen was last called
// for another stream.
func (l *Ledger) Listings(ctx context.Context, source, label string) (Listings, error) {
	seen, _, err := l.seenOpen(ctx, source)
	if err != nil || seen.Label != label {
		return Listings{}, err
	}
	return Listings{At: seen.At, Open: seen.Open}, nil
}

// ListingsFor returns the listings of a table's stream if one of its shards needs them. A shard
// needs them if its children are unknown, or if the shard was not read yet. Otherwise it returns
// the zero value.
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

// NoteOpen records a complete listing of the stream, and the shards that it showed as open at the
// given time. Shards that this listing did not show stay recorded while they are in the map
// `known`, because their children may not be leased yet. The rows of all listed shards must exist
// already.
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
			open = nil // a listing without a time proves nothing
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
