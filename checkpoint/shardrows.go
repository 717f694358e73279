package checkpoint

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// GiveUp makes a gap of a shard that Outrun gave, whoever holds it. The caller raises the generation next; if it cannot, whoever sees
// the row does (Undeclared). If the row has changed, nothing happens.
func (l *Ledger) GiveUp(ctx context.Context, s Shard, reason string) (bool, error) {
	return l.giveUp(ctx, s, Late, reason)
}

// giveUp makes a gap of a shard whoever holds it.
func (l *Ledger) giveUp(ctx context.Context, s Shard, loss Loss, reason string) (bool, error) {
	s.State, s.Loss, s.Reason, s.Noted, s.Owner = Gap, loss, reason, false, ""
	s.beat(l.unowned(ctx))
	s.Rate = 0
	s.Epoch++
	s.EndedAt, s.Settling, s.DoneAt = time.Time{}, Settling{}, l.ServiceTime(ctx)
	return l.swap(ctx, l.store, s.key(l), s.Counter, l.stamp(&s.header, &s))
}

// Shards reads the rows of all shards of a source table, by stream label and id. Of a shard that is not finished it has the parent's row, if there
// is one: a range is not read at one moment, and a parent whose key was passed before it was created would be missing beside its child.
func (l *Ledger) Shards(ctx context.Context, source string) ([]Shard, error) {
	rows, err := l.store.Read(ctx, l.shardPrefix(source))
	if err != nil {
		return nil, err
	}
	shards, err := l.decodeShards(source, rows)
	if err != nil {
		return nil, err
	}
	missing := l.missingParents(shards)
	if len(missing) == 0 {
		return shards, nil
	}
	// Whoever creates a child's row has created its parent's before: a read that begins now finds all its ancestors, unless there are none.
	again, err := l.store.Read(ctx, l.shardPrefix(source))
	if err != nil {
		return nil, err
	}
	for len(missing) > 0 {
		found := 0
		for _, row := range again {
			if missing[row.Key] {
				rows, found = append(rows, row), found+1
			}
		}
		if found == 0 {
			break
		}
		slices.SortFunc(rows, func(a, b Row) int { return strings.Compare(a.Key, b.Key) })
		if shards, err = l.decodeShards(source, rows); err != nil {
			return nil, err
		}
		missing = l.missingParents(shards) // those of the ones that were found, which the first read had passed as well
	}
	return shards, nil
}

func (l *Ledger) decodeShards(source string, rows []Row) ([]Shard, error) {
	shards, err := l.shards.decode(source, rows)
	for i := range shards {
		shards[i].Counter = rows[i].Counter
	}
	return shards, err
}

// missingParents are the keys of the parents, not among shards, of those that are not finished.
func (l *Ledger) missingParents(shards []Shard) map[string]bool {
	type id struct{ label, shard string }
	known, missing := make(map[id]bool, len(shards)), map[string]bool{}
	for _, s := range shards {
		known[id{s.Label, s.ID}] = true
	}
	for _, s := range shards {
		if !s.Finished() && s.Parent != "" && !known[id{s.Label, s.Parent}] {
			parent := Shard{Source: s.Source, Label: s.Label, ID: s.Parent}
			missing[parent.key(l)] = true
		}
	}
	return missing
}

// CreateShard adds the row of a shard that was discovered, waiting or, if it is not to be read, lost; if the row exists already,
// nothing happens. A raise that goes on at the same time may miss the row (H70). That needs no care here: nobody reads the
// shard before Take, which stamps the row with the table's generation as read just before, and refuses the row of a stream
// that was replaced; such a row is found by the next Adopt.
func (l *Ledger) CreateShard(ctx context.Context, s Shard) error {
	s.Heartbeat = l.unowned(ctx)
	_, err := l.swap(ctx, l.store, s.key(l), 0, l.stamp(&s.header, &s))
	return err
}

// Reopen lets what is left of a trimmed shard be read, in the generation that its gap began: from the horizon, and without a claim
// about what was before. It is the one way in which a position moves back.
func (l *Ledger) Reopen(ctx context.Context, s Shard, table TableState) error {
	if !s.Reopenable(table) {
		return nil
	}
	s.State, s.Loss, s.Reason, s.Noted, s.Owner = Waiting, "", "", false, ""
	s.beat(l.unowned(ctx))
	s.Epoch++
	s.Generation, s.NumberedFrom = table.Generation, s.Applied
	// The load that the gap asks for covers everything up to the gap.
	s.Position, s.FirstRead, s.CoveredTo = cdc.SequenceNumber{}, time.Time{}, s.DoneAt
	s.Dropping, s.Cut, s.Inherited = false, time.Time{}, false
	s.cutAt(s.DoneAt)
	s.DoneAt, s.AppliedTo, s.EndedAt, s.Settling = time.Time{}, time.Time{}, time.Time{}, Settling{}
	s.Announced = Announced{}
	s.Reopened++
	_, err := l.swap(ctx, l.store, s.key(l), s.Counter, l.stamp(&s.header, &s))
	return err
}

// Remove deletes the row of a shard that Removable gave.
func (l *Ledger) Remove(ctx context.Context, s Shard) error {
	_, err := l.swap(ctx, l.store, s.key(l), s.Counter, nil)
	return err
}

// kept is how long rows of finished shards stay after everything else allows their removal: twice the stream's retention.
const kept = 2 * cdc.Retention

// Removable are the rows that say nothing any more: finished shards that are not listed, whose known children are all
// finished, and that ended 48 hours ago. A shard without known children stays while its stream lives: its children may only
// be listed late, and without their parent's row they would look like a lost lineage (H16, H76). Nor does a row go before its parent's, which stands
// before it in the result: a parent whose children are forgotten looks as if they were still to be listed, for ever. The times of a parent and a child
// that were read soon one after the other need not be in their order, because workers' clocks differ. Listed holds the ids of the last complete
// listing; label is the stream it was of.
func Removable(shards []Shard, label string, listed []cdc.Shard, ended bool, now time.Time) []Shard {
	type id struct{ label, shard string }
	// One that was trimmed is finished for a while, and is reopened then.
	finished := func(s Shard) bool { return s.Finished() && (s.Loss != Trimmed || s.Label != label) }
	children := map[id][2]int{} // number of children, number of finished ones
	for _, s := range shards {
		n := children[id{s.Label, s.Parent}]
		n[0]++
		if finished(s) {
			n[1]++
		}
		children[id{s.Label, s.Parent}] = n
	}
	isListed := map[string]bool{}
	for _, s := range listed {
		isListed[s.ID] = true
	}
	rows, over := map[id]Shard{}, map[id]bool{}
	for _, s := range shards {
		at := id{s.Label, s.ID}
		n := children[at]
		rows[at] = s
		old := s.Label != label // nothing of a replaced stream is asked for again
		over[at] = finished(s) && !s.DoneAt.IsZero() && now.Sub(s.DoneAt) >= kept && n[0] == n[1] && (old || !isListed[s.ID] && (n[0] > 0 || ended))
	}
	var out []Shard
	gone := map[id]bool{}
	var remove func(s Shard) bool
	remove = func(s Shard) bool {
		at := id{s.Label, s.ID}
		if !over[at] {
			return gone[at]
		}
		over[at] = false
		if parent, known := rows[id{s.Label, s.Parent}]; known && !remove(parent) {
			return false
		}
		gone[at] = true
		out = append(out, s)
		return true
	}
	for _, s := range shards {
		remove(s)
	}
	return out
}
