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
	// tailShards is how many shards are read at once, tailEvery the time between two reads of one.
	tailShards = 32
	tailEvery  = 200 * time.Millisecond
	// tailRest is how long a change may take at least until the stream shows it.
	tailRest = 3 * time.Second
)

// tail is what the stream holds and no worker applies: from the checkpoints to the tip. It is read
// and nothing is written, so that a verify needs no worker. A row without such a change is judged,
// another one is in flight.
type tail struct {
	seed maphash.Seed

	mu    sync.Mutex
	began time.Time // of the last read, on the service's clock
	names map[uint64]bool
}

// changes are the rows and items of the changes that were read, by hashes: one that is shared by two
// names makes a row in flight that is not, and no more.
type changes struct {
	mapping *transform.Mapping
	seed    maphash.Seed
	mu      sync.Mutex
	names   map[uint64]bool
}

func rowName(table, row string) string { return "r" + table + "\x00" + row }

func itemName(m *transform.Mapping, keys attribute.Item) string { return "i" + m.ItemKey(keys) }

// add notes what changes concern. An item that cannot be mapped concerns no row, but itself.
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

// unapplied reads the tail, and says which places it concerns. It is nil while a worker reads the
// stream, and in mode topic, where what is read may wait for an applier: then changes are waited for.
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

// read reports whether a worker reads an open shard of the stream, as far as its beats tell.
func (v *Verifier) read(ctx context.Context, state checkpoint.TableState, shards []checkpoint.Shard) bool {
	now := v.now(ctx)
	return slices.ContainsFunc(standing.Open(state, shards), func(s *checkpoint.Shard) bool {
		return s.Owner != "" && standing.Answers(s.Heartbeat, now, v.Ledger.Lease())
	})
}

// readTail reads every shard that is not done to its tip, those too that the ledger does not know.
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

// readShard reads a shard to its tip. What was trimmed after its checkpoint nobody will apply: it is
// read from the horizon.
func (v *Verifier) readShard(life engine.Lifecycle, reader *cdc.Reader, at cdc.Position, found *changes) error {
	for empty := 0; empty < cdc.EmptyRun; empty++ {
		var page cdc.Page
		err := v.Retry(life, "read a shard", func(ctx context.Context) (err error) { page, err = reader.Read(ctx, at); return err })
		switch {
		case cdc.Is(err, cdc.Trimmed) && !at.AtHorizon():
			at = cdc.Position{}
			continue
		case cdc.Is(err, cdc.NotFound):
			return nil // it is gone, with all that it held
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
