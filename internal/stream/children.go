package stream

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// DynamoDB lists a child shard some time after its parent has ended (H13). So a listing proves that
// there is no child only if it began late enough. It must begin at least Timing.Listed after this
// process found the parent's end, on this process's clock. The time at which the listing ended does
// not matter.

// leafLists is the maximum number of shards whose children a pass requests one by one. For more
// shards, a complete listing is cheaper.
const leafLists = 3

// lineage holds the ended shards of a stream whose children a pass requests.
type lineage struct {
	awaiting []string // leaves whose children are probably listed soon
	// due holds shards that ended so long ago that a listing that begins now shows all their
	// children.
	due []checkpoint.Shard
	// old reports that a shard in `due` ended before the stream's retention began. Only a complete
	// listing may still have its children.
	old bool
}

// lineage returns the shards whose children must be requested. It records when it found the end of
// each shard. A new coordinator finds the ends again, and waits from then.
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

// asked returns the shards whose children are requested one by one. A single empty id stands for a
// complete listing of the stream.
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

// children requests the children of ended shards, and adds rows for new children. It marks each
// shard whose children all have rows.
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
