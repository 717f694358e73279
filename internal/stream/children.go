package stream

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// The service lists a child shard some time after its parent has ended (H13). So a listing proves
// that there is no child only if it began late enough: Timing.Listed after this process found the
// end of the parent, on its own clock. The time at which the listing ended does not matter.

// leafLists is the maximum number of shards with children that are requested individually in a
// pass. For more shards, a complete listing is cheaper.
const leafLists = 3

// lineage holds the ended shards of a stream for which a pass requests the children.
type lineage struct {
	awaiting []string // leaves with children that are likely to be listed soon
	// Leaves with children that a listing that begins now shows completely.
	due []checkpoint.Shard
	// A shard in due ended longer ago than the stream's retention; only a complete listing may have
	// its children.
	old bool
}

// lineage returns the shards for which the children must be requested. It records the times at
// which it found the ends of shards. A new coordinator finds them again, and waits from that time.
func (r *Reconciler) lineage(ctx context.Context, v engine.View, now time.Time) (l lineage) {
	mono := task.Mono(ctx)
	var nodes []cdc.Node
	awaiting, ends := map[string]bool{}, map[string]time.Duration{}
	for _, s := range v.Shards {
		if s.Label != v.State.Label {
			continue
		}
		nodes = append(nodes, cdc.Node{ID: s.ID, Parent: s.Parent, Hop: s.Hop})
		awaiting[s.ID] = s.AwaitsChildren(now)
		if !s.Incomplete() {
			continue
		}
		found, known := r.ends[s.ID]
		if !known {
			found = mono
		}
		ends[s.ID] = found
		if s.State == checkpoint.Done && mono-found >= r.Timing.Listed {
			l.due, l.old = append(l.due, s), l.old || !awaiting[s.ID]
		}
	}
	r.ends = ends
	for _, id := range cdc.Leaves(nodes) {
		if awaiting[id] {
			l.awaiting = append(l.awaiting, id)
		}
	}
	return l
}

// asked returns the ids of shards for which the children are requested one by one. A single empty
// id stands for a complete listing of the stream.
func (l *lineage) asked() []string {
	ids, known := l.awaiting, map[string]bool{}
	for _, id := range ids {
		known[id] = true
	}
	for _, s := range l.due {
		if !known[s.ID] {
			ids = append(ids, s.ID)
		}
	}
	if l.old || len(ids) > leafLists {
		return []string{""}
	}
	return ids
}

// children requests the children of ended shards, and adds rows for new children. It marks the
// shards for which all children now have rows.
func (r *Reconciler) children(life engine.Lifecycle, state checkpoint.TableState, l lineage) error {
	for _, id := range l.asked() {
		listing, err := ListShards(life, r.Retrier, r.open(state.StreamARN), id)
		if err != nil {
			return err
		}
		if listing.Ended && !r.dropped {
			r.soon = true // the stream of a dropped table ends too
		}
		if err := r.discover(life, state, listing, false); err != nil {
			return err
		}
		for _, s := range l.due {
			if id != "" && id != s.ID {
				continue
			}
			if err := r.Ledger.Completed(life.Work, s); err != nil {
				return err
			}
		}
	}
	return nil
}
