package stream

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// The service lists a child shard some time after its parent has ended (H13). So a listing that shows
// no further child proves nothing, unless it began long enough after the end was found: Timing.Listed,
// on this process's own clock. A listing that began earlier may miss a child although it ends later.

// leafLists is up to how many shards are asked for their children individually in a pass; for more,
// a complete listing is cheaper.
const leafLists = 3

// lineage holds the shards of a stream whose children a pass requests.
type lineage struct {
	awaiting []string           // leaves whose children are likely to be listed soon
	due      []checkpoint.Shard // a listing that begins now shows all of their children
	old      bool               // one of due ended before the stream's retention, and only a whole listing may know its children
}

// lineage returns the shards whose children are to be requested, and remembers when it found ends of
// shards. A new coordinator waits from the moment at which it found them itself.
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

// asked returns the shards whose children are requested one by one; one empty id stands for a listing
// of the whole stream.
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

// children adds the rows of children of shards that have ended, and marks the shards all of whose
// children have rows now.
func (r *Reconciler) children(life engine.Lifecycle, state checkpoint.TableState, l lineage) error {
	for _, id := range l.asked() {
		listing, err := ListShards(life, r.Retrier, r.open(state.StreamARN), id)
		if err != nil {
			return err
		}
		if listing.Ended && !r.dropped {
			r.soon = true // a dropped table's stream ends with it
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
