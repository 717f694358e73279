package checkpoint

import "time"

// Watch judges other workers' leases by their rows' counters: a lease is over when its counter has not changed for a lease's
// duration on the watcher's own monotonic clock. No two clocks need agree (H64).
type Watch struct {
	lease time.Duration
	seen  map[string]sighting
}

type sighting struct {
	counter uint64
	since   time.Duration
}

// NewWatch returns a watch that has seen nothing: what it sees first counts as renewed just then.
func (l *Ledger) NewWatch() *Watch { return &Watch{lease: l.lease, seen: map[string]sighting{}} }

// Expired notes the row's counter and tells whether it has stood still for a lease's duration.
func (w *Watch) Expired(key string, counter uint64, now time.Duration) bool {
	s, ok := w.seen[key]
	if !ok || s.counter != counter {
		w.seen[key] = sighting{counter, now}
		return false
	}
	return now-s.since >= w.lease
}

// SeatFree tells whether a table's keeper seat may be taken.
func (w *Watch) SeatFree(s Seat, now time.Duration) bool {
	return w.Expired(s.Row.Key, s.Row.Counter, now) || s.Owner() == ""
}

// Available is a shard that may be leased, with its parent's row if there is one.
type Available struct {
	Shard  Shard
	Parent *Shard
}

// Free are the shards of the stream named label that may be leased now, in the order given: unfinished, without an owner or with one
// whose lease is over, and with a parent that is finished (or that the ledger does not know: roots, and children of rows that
// were removed). A child never starts before its parent is finished (H12).
func (w *Watch) Free(shards []Shard, label string, now time.Duration) []Available {
	rows := make(map[string]*Shard, len(shards))
	for i := range shards {
		if shards[i].Label == label {
			rows[shards[i].ID] = &shards[i]
		}
	}
	var free []Available
	for _, s := range shards {
		if s.Label != label || s.Finished() {
			continue
		}
		expired := w.Expired(s.Label+"/"+s.ID, s.Counter, now)
		if s.Owner != "" && !expired {
			continue
		}
		parent := rows[s.Parent]
		if parent != nil && !parent.Finished() {
			continue
		}
		free = append(free, Available{Shard: s, Parent: parent})
	}
	return free
}
