package checkpoint

import "time"

// Watch judges other workers' leases by their rows' counters: a lease is over when its counter has not changed for a lease's
// duration on the watcher's own monotonic clock. No two clocks need agree (H64).
type Watch struct {
	lease        time.Duration
	coordinators map[string]sighting // by row key
	shards       map[string]sighting // of the last call of Look, by label and id
	parts        map[partID]sighting // of the last call of LookParts
}

type partID struct {
	number uint32
	phase  Phase
	index  int
}

type sighting struct {
	counter uint64
	since   time.Duration
}

// NewWatch returns a watch that has seen nothing: what it sees first counts as renewed just then.
func (l *Ledger) NewWatch() *Watch {
	return &Watch{lease: l.lease, coordinators: map[string]sighting{}}
}

// sees is the sighting of a row whose counter is read as counter at now, after an earlier one if there is any.
func sees(before sighting, found bool, counter uint64, now time.Duration) sighting {
	if found && before.counter == counter {
		return before
	}
	return sighting{counter, now}
}

// over reports whether the row has stood still for a lease's duration.
func (w *Watch) over(s sighting, now time.Duration) bool { return now-s.since >= w.lease }

// CoordinatorLeaseFree reports whether a table's coordinator lease may be taken.
func (w *Watch) CoordinatorLeaseFree(s CoordinatorLease, now time.Duration) bool {
	before, found := w.coordinators[s.Row.Key]
	seen := sees(before, found, s.Row.Counter, now)
	w.coordinators[s.Row.Key] = seen
	return s.Owner() == "" || w.over(seen, now)
}

// Available is a shard that may be leased, with its parent's row if there is one.
type Available struct {
	Shard  Shard
	Parent *Shard
}

// Look divides the shards of the table's stream that may be leased, in the order given. Free are unfinished, without an owner or with one
// whose lease is over, and with a parent that is finished (or that the ledger does not know: roots, and children of rows that
// were removed). A child never starts before its parent is finished (H12) and a gap of its parent is declared; a trimmed parent is read
// on first, once it is reopened. Held are those that would be free but for a lease that goes on: they may be taken over, for the sake of balance alone.
// Shards holds all rows of the table: what is not among them is forgotten.
func (w *Watch) Look(shards []Shard, table TableState, now time.Duration) (free, held []Available) {
	rows := make(map[string]*Shard, len(shards))
	for i := range shards {
		if shards[i].Label == table.Label {
			rows[shards[i].ID] = &shards[i]
		}
	}
	before := w.shards
	w.shards = make(map[string]sighting, len(rows)) // rows of ended shards are removed: a watch must not grow with the stream
	for _, s := range shards {
		if s.Label != table.Label || s.Finished() {
			continue
		}
		key := s.Label + "/" + s.ID
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

// LookParts divides the parts of a phase, of which rows are: what is not among them is forgotten. Of
// is what LoadPart or VerifyPart of the table gave. Free are not done and without an owner, or with
// one whose lease is over; one without a row is as it would be written first. Held are those whose
// lease holds. None is free while the load or the verify is paused.
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
