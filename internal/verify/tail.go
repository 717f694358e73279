package verify

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

const (
	// tailShards is the number of shards that are read concurrently. tailEvery is the time between
	// two reads of a shard.
	tailShards = 32
	tailEvery  = 200 * time.Millisecond
	// tailRest is the longest time that the stream takes to show a change.
	tailRest = 3 * time.Second
)

// tail is the part of the stream that no worker has applied: from the checkpoints to the newest
// change. A verify only reads these changes, so it needs no worker. A row with a change in the tail
// counts as in flight. All other rows can be judged.
type tail struct {
	seed maphash.Seed

	mu    sync.Mutex
	began time.Time // beginning of the last read, by the service's clock
	names map[uint64]bool
}

// changes holds hashes of the rows and items of the changes that were read. If two keys have the
// same hash, a row may wrongly count as in flight. That is harmless.
type changes struct {
	mapping *transform.Mapping
	seed    maphash.Seed
	mu      sync.Mutex
	names   map[uint64]bool
}

func rowName(table, row string) string { return "r" + table + "\x00" + row }

func itemName(m *transform.Mapping, keys attribute.Item) string { return "i" + m.ItemKey(keys) }

// add records the rows and items of changes. For an item that cannot be mapped, only the item is
// recorded.
func (c *changes) add(of []cdc.Change) {
	batch := transform.Fold(c.mapping, of, transform.Stamp{Generation: 1, Hop: 1})
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range of {
		c.names[maphash.String(c.seed, itemName(c.mapping, of[i].Keys))] = true
	}
	for i := range batch.Rows {
		c.names[maphash.String(c.seed, rowName(batch.Rows[i].Table, batch.Rows[i].Row))] = true
	}
}

// unapplied reads the tail. It returns a function that reports whether a row has a change in the
// tail. If a worker reads the stream, it returns nil. In mode topic it also returns nil, because a
// change that was read may still wait for an applier. Then the verify waits for the changes
// instead.
func (v *Verifier) unapplied(life engine.Lifecycle, to time.Time) (waits func(verify.Place) bool, err error) {
	ctx := life.Work
	state, _, err := v.Ledger.Table(ctx, v.Source)
	if err != nil || state.Apply == checkpoint.Topic {
		return nil, err
	}
	shards, err := v.Ledger.Shards(ctx, v.Source)
	if err != nil || v.read(ctx, state, shards) {
		return nil, err
	}
	v.tail.mu.Lock()
	names, fresh := v.tail.names, !v.tail.began.Before(to.Add(engine.AppliedSlack))
	v.tail.mu.Unlock()
	if !fresh {
		if err := life.Rest(max(v.settings.settle, tailRest)); err != nil {
			return nil, verify.ErrDrained
		}
		began := v.now(ctx)
		if names, err = v.readTail(life, state, shards); err != nil {
			return nil, err
		}
		v.tail.mu.Lock()
		v.tail.names, v.tail.began = names, began
		v.tail.mu.Unlock()
	}
	return func(p verify.Place) bool {
		return names[maphash.String(v.tail.seed, rowName(p.Table, p.Row))] || slices.ContainsFunc(p.Keys, func(keys attribute.Item) bool {
			return names[maphash.String(v.tail.seed, itemName(v.mapping, keys))]
		})
	}, nil
}

// read reports whether any worker reads an open shard of the stream, according to heartbeats.
func (v *Verifier) read(ctx context.Context, state checkpoint.TableState, shards []checkpoint.Shard) bool {
	now := v.now(ctx)
	return slices.ContainsFunc(standing.Open(state, shards), func(s *checkpoint.Shard) bool {
		return s.Owner != "" && standing.Answers(s.Heartbeat, now, v.Ledger.Lease())
	})
}

// readTail reads every unfinished shard to its newest change, including shards that the ledger does
// not know.
func (v *Verifier) readTail(life engine.Lifecycle, state checkpoint.TableState, shards []checkpoint.Shard) (map[uint64]bool, error) {
	source := v.open(state.StreamARN)
	lister := cdc.NewLister(source, "")
	for done := false; !done; {
		err := v.Retry(life, "list the stream", func(ctx context.Context) (err error) { done, err = lister.Next(ctx); return err })
		if err != nil {
			return nil, err
		}
	}
	from := map[string]cdc.Position{}
	for _, s := range lister.Listing().Shards {
		from[s.ID] = cdc.Position{}
	}
	for i := range shards {
		switch s := &shards[i]; {
		case s.Label != state.Label:
		case s.State == checkpoint.Done:
			delete(from, s.ID)
		default:
			from[s.ID] = cdc.Position{After: s.Position}
		}
	}
	found := &changes{mapping: v.mapping, seed: v.tail.seed, names: map[uint64]bool{}}
	g := task.NewGroup(life.Work, tailShards)
	for shard, at := range from {
		g.Go("read "+shard, func(ctx context.Context) error {
			return v.readShard(life.Within(ctx), &cdc.Reader{Source: source, Shard: shard}, at, found)
		})
	}
	return found.names, g.Wait()
}

// readShard reads a shard to its newest change. If changes after the shard's checkpoint were
// trimmed, no worker can apply them. Then readShard reads from the horizon.
func (v *Verifier) readShard(life engine.Lifecycle, reader *cdc.Reader, at cdc.Position, found *changes) error {
	for empty := 0; empty < cdc.EmptyRun; empty++ {
		var page cdc.Page
		err := v.Retry(life, "read a shard", func(ctx context.Context) (err error) { page, err = reader.Read(ctx, at); return err })
		switch {
		case cdc.Is(err, cdc.Trimmed) && !at.AtHorizon():
			at = cdc.Position{}
			continue
		case cdc.Is(err, cdc.NotFound):
			return nil // the shard no longer exists, and its changes are lost
		case err != nil:
			return err
		}
		if n := len(page.Changes); n > 0 {
			found.add(page.Changes)
			at, empty = cdc.Position{After: page.Changes[n-1].Sequence}, -1
		}
		if page.End {
			return nil
		}
		if err := life.Rest(tailEvery); err != nil {
			return verify.ErrDrained
		}
	}
	return nil
}
