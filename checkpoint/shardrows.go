package checkpoint

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
)

// GiveUp makes a gap of a shard that Outrun returned, even if a worker holds it. The caller must
// raise the generation next. If the caller fails, the next process that sees the row raises it
// (Undeclared). If the row has changed, GiveUp does nothing and returns false.
func (l *Ledger) GiveUp(ctx context.Context, s Shard, reason string) (bool, error) {
	return l.giveUp(ctx, s, Late, reason)
}

// giveUp makes a gap of a shard, even if a worker holds it.
func (l *Ledger) giveUp(ctx context.Context, s Shard, loss Loss, reason string) (bool, error) {
	s.State, s.Loss, s.Reason, s.Noted, s.Owner = Gap, loss, reason, false, ""
	s.beat(l.unowned(ctx))
	s.Shown = Shown{}
	s.Epoch++
	s.EndedAt, s.Settling, s.DoneAt = time.Time{}, Settling{}, l.ServiceTime(ctx)
	return l.swap(ctx, l.store, s.key(l), s.Counter, l.stamp(&s.header, &s))
}

// Shards reads the rows of all shards of a source table, by stream label and id. The result has the
// parent's row of every unfinished shard, if the row exists. A second read may be necessary,
// because a range read is not a snapshot. A parent's row may be created in the part of the range
// that is already read, and its child's row in the part that follows.
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
	// A parent's row is created before its child's, so a read that begins now finds all ancestors
	// that have rows.
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
		missing = l.missingParents(shards) // parents of the rows just found, which the first read missed too
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

// missingParents returns the row keys of parents of unfinished shards that are not among shards.
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

// CreateShard adds the row of a discovered shard: waiting or, if it must not be read, a gap. If the
// row exists already, it does nothing. A concurrent raise may miss the row (H70). This is safe,
// because no worker reads the shard before Take. Take stamps the row with the table's generation,
// which it reads just before. It refuses the row of a replaced stream, and the next Adopt finds
// such a row.
func (l *Ledger) CreateShard(ctx context.Context, s Shard) error {
	s.Heartbeat = l.unowned(ctx)
	_, err := l.swap(ctx, l.store, s.key(l), 0, l.stamp(&s.header, &s))
	return err
}

// Reopen lets workers read the rest of a Reopenable shard from the horizon, in the generation that
// its gap began. It claims nothing about earlier changes. Only Reopen moves a position back.
func (l *Ledger) Reopen(ctx context.Context, s Shard, table TableState) error {
	if !s.Reopenable(table) {
		return nil
	}
	s.State, s.Loss, s.Reason, s.Noted, s.Owner = Waiting, "", "", false, ""
	s.beat(l.unowned(ctx))
	s.Epoch++
	s.Generation, s.NumberedFrom = table.Generation, s.Applied
	// The load that the gap requires covers all changes up to the gap.
	s.Position, s.FirstRead, s.CoveredTo = cdc.SequenceNumber{}, time.Time{}, s.DoneAt
	s.Dropping, s.Cut, s.Inherited = false, time.Time{}, false
	s.cutAt(s.DoneAt)
	s.DoneAt, s.AppliedTo, s.EndedAt, s.Settling = time.Time{}, time.Time{}, time.Time{}, Settling{}
	s.Announced = Announced{}
	s.Reopened++
	_, err := l.swap(ctx, l.store, s.key(l), s.Counter, l.stamp(&s.header, &s))
	return err
}

// Remove deletes the row of a shard that Removable returned.
func (l *Ledger) Remove(ctx context.Context, s Shard) error {
	_, err := l.swap(ctx, l.store, s.key(l), s.Counter, nil)
	return err
}

// Completed records that all children of a shard that is done have rows. A row that has changed
// stays unchanged.
func (l *Ledger) Completed(ctx context.Context, s Shard) error {
	if s.State != Done || s.Complete {
		return nil
	}
	s.Complete = true
	_, err := l.swap(ctx, l.store, s.key(l), s.Counter, l.stamp(&s.header, &s))
	return err
}

// kept is how long the row of a finished shard stays: twice the stream's retention.
const kept = 2 * cdc.Retention

// Removable returns the rows that are no longer needed. Such a shard is finished and is not listed
// any more. Its known children are all finished, and it ended at least 48 hours ago. A shard
// without known children stays while its stream exists: its children may be listed late, and
// without their parent's row they would look like a lost lineage (H16, H76). A parent's row is
// removed before its children's rows and precedes them in the result, because a parent without
// known children would wait for them permanently. The times at which the shards ended do not ensure
// this order, because workers' clocks differ. The argument `listed` is the last complete listing,
// and label is the label of its stream.
func Removable(shards []Shard, label string, listed []cdc.Shard, ended bool, now time.Time) []Shard {
	type id struct{ label, shard string }
	// Such a shard is finished only until a worker reopens it.
	finished := func(s Shard) bool { return s.Finished() && !s.Reopens(label) }
	children := map[id][2]int{} // number of children, and of finished children
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
		old := s.Label != label // kept for as long as their stream would keep changes
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
