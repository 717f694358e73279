package checkpoint

import "time"

// Watch judges other workers' leases by their rows' counters. A lease has ended when its counter
// has not changed for a lease's duration on the watcher's own monotonic clock. So clocks need not
// agree (H64).
type Watch struct {
	lease        time.Duration
	lasting      func(key string) time.Duration // how long a coordinator's lease lasts
	coordinators map[string]sighting            // by row key
	shards       map[shardID]sighting           // from the last call of Look
	parts        map[partID]sighting            // from the last call of LookParts
}

type shardID struct{ label, id string }

type partID struct {
	number uint32
	phase  Phase
	index  int
}

type sighting struct {
	counter uint64
	since   time.Duration
}

// NewWatch returns a watch that has seen no row yet. A lease counts as renewed when the watch first
// sees it.
func (l *Ledger) NewWatch() *Watch {
	return &Watch{lease: l.lease, lasting: l.lasting, coordinators: map[string]sighting{}}
}

// sees returns the sighting of a row whose counter was read at the time `now`. It keeps an earlier
// sighting with the same counter.
func sees(before sighting, found bool, counter uint64, now time.Duration) sighting {
	if found && before.counter == counter {
		return before
	}
	return sighting{counter, now}
}

// over reports whether the row has not changed for a lease's duration.
func (w *Watch) over(s sighting, now time.Duration) bool { return now-s.since >= w.lease }

// Knows reports whether the watch has seen a coordinator's lease before.
func (w *Watch) Knows(s CoordinatorLease) bool {
	_, found := w.coordinators[s.Row.Key]
	return found
}

// CoordinatorLeaseFree reports whether a table's coordinator lease may be taken.
func (w *Watch) CoordinatorLeaseFree(s CoordinatorLease, now time.Duration) bool {
	before, found := w.coordinators[s.Row.Key]
	seen := sees(before, found, s.Row.Counter, now)
	w.coordinators[s.Row.Key] = seen
	return s.Owner() == "" || now-seen.since >= w.lasting(s.Row.Key)
}

// Available is a shard that may be leased, with its parent's row if there is one.
type Available struct {
	Shard  *Shard
	Parent *Shard
}

// Look returns the shards of the table's stream that may be leased, in the given order. A free
// shard is unfinished. It has no owner, or its owner's lease has ended. Its parent is finished, or
// the ledger does not know the parent (roots, and children of removed rows). A child never starts
// before its parent is finished (H12) and the parent's gap is declared. A trimmed parent is
// reopened and read first. A held shard would be free if its lease had ended. It may be taken over
// only for balance. The argument `shards` must hold all rows of the table, because Look forgets all
// others. The results point into it.
func (w *Watch) Look(shards []Shard, table TableState, now time.Duration) (free, held []Available) {
	rows := make(map[string]*Shard, len(shards))
	for i := range shards {
		if shards[i].Label == table.Label {
			rows[shards[i].ID] = &shards[i]
		}
	}
	before := w.shards
	w.shards = make(map[shardID]sighting, len(rows)) // drops removed rows, so that a watch does not grow with the stream
	for i := range shards {
		s := &shards[i]
		if s.Label != table.Label || s.Finished() {
			continue
		}
		key := shardID{s.Label, s.ID}
		earlier, found := before[key]
		w.shards[key] = sees(earlier, found, s.Counter, now)
		parent := rows[s.Parent]
		if parent != nil && !parent.settled(table) {
			continue
		}
		if s.Owner != "" && !w.over(w.shards[key], now) {
			held = append(held, Available{Shard: s, Parent: parent})
		} else {
			free = append(free, Available{Shard: s, Parent: parent})
		}
	}
	return free, held
}

// LookParts returns the free and the held parts of a phase. LoadPart or VerifyPart must have
// returned its second argument for the table. The argument `rows` must be all rows of the phase. A
// free part is not done. It has no owner, or its owner's lease has ended. A part without a row is
// returned in its first state. A held part has a lease that has not ended. No part is free while
// the load or verify is paused.
func (w *Watch) LookParts(rows []Part, of Part, table TableState, now time.Duration) (free, held []Part) {
	known := make(map[int]Part, len(rows))
	for _, p := range rows {
		if table.runs(p) {
			known[p.Index] = p
		}
	}
	before := w.parts
	w.parts = make(map[partID]sighting, len(known))
	for index := range of.Total {
		p, found := known[index]
		if !found {
			p = of
			p.Index = index
		}
		id := partID{p.Number, of.Phase, index}
		earlier, seen := before[id]
		w.parts[id] = sees(earlier, seen, p.Counter, now)
		switch {
		case p.State == PartDone:
		case p.Owner != "" && !w.over(w.parts[id], now):
			held = append(held, p)
		case table.pauses(of.Phase) == "":
			free = append(free, p)
		}
	}
	return free, held
}
