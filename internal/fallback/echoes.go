package fallback

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// This file reads the source's own stream on. It holds the echoes of what the leader writes, and
// also writes that nobody expects: a request that was executed twice, or an instance of the
// application that was not switched. The item of each change is looked at once, as it is then. The
// image in the change decides nothing, because the row may have changed since.

// echo is a shard of the source's stream in memory.
type echo struct {
	record checkpoint.FallbackShard
	track  track
	ended  bool
}

// echoes reads the source's stream until ctx ends. Shards are read side by side and in no order.
func (r *reign) echoes(ctx context.Context) error {
	g := task.NewGroup(ctx, 0)
	all := map[string]*echo{}
	listed := time.Duration(-1)
	for ctx.Err() == nil { // before the switch, others write the items
		if p, err := r.prove(ctx); err == nil && p.mayWrite {
			break
		}
		_ = task.Sleep(ctx, r.times.Save)
	}
	for ctx.Err() == nil {
		if now := task.Mono(ctx); listed < 0 || now-listed >= r.times.Listing {
			if err := r.listEchoes(ctx, g, all); fatal(err) {
				return err
			} else if err != nil {
				r.failed("list the source's stream", err)
			} else {
				listed = now
			}
		}
		for _, id := range slices.Sorted(maps.Keys(all)) {
			if err := r.saveEcho(ctx, all[id]); err != nil {
				return err
			}
		}
		_ = task.Sleep(ctx, 10*r.times.Save)
	}
	return g.Wait()
}

// listEchoes begins to read each shard that the stream lists and that is not read. A shard without a
// record is read from where replicator's own reading has ended.
func (r *reign) listEchoes(ctx context.Context, g *task.Group, all map[string]*echo) error {
	listing, err := cdc.ListShards(ctx, r.Stream, "")
	if err != nil {
		return err
	}
	records, err := r.Ledger.FallbackShards(ctx, r.Source)
	if err != nil {
		return err
	}
	known := map[string]checkpoint.FallbackShard{}
	for _, s := range records {
		known[s.ID] = s
	}
	shards, err := r.Ledger.Shards(ctx, r.Source)
	if err != nil {
		return err
	}
	applied := map[string]checkpoint.Shard{}
	for _, s := range shards {
		applied[s.ID] = s
	}
	for _, s := range listing.Shards {
		if all[s.ID] != nil {
			continue
		}
		record, has := known[s.ID]
		if !has {
			at := applied[s.ID]
			record = checkpoint.FallbackShard{ID: s.ID, Position: at.Position, Done: at.State == checkpoint.Done}
		}
		if record.Epoch = r.held.Epoch(); record.Done {
			continue
		}
		if err := r.Ledger.SaveFallbackShard(ctx, r.Source, &record); err != nil {
			return err
		}
		e := &echo{record: record}
		all[s.ID] = e
		g.Go("read a shard of the source's stream", func(ctx context.Context) error { return r.readEcho(ctx, e) })
	}
	return nil
}

// readEcho reads one shard until it ends.
func (r *reign) readEcho(ctx context.Context, e *echo) error {
	reader := &cdc.Reader{Source: r.Stream, Shard: e.record.ID}
	at := cdc.Position{After: e.record.Position}
	for ctx.Err() == nil {
		for r.hand.full() {
			if r.hand.room.Wait(ctx, time.Second) != nil {
				return nil
			}
		}
		page, err := reader.Read(ctx, at)
		switch {
		case cdc.Is(err, cdc.Trimmed) || cdc.Is(err, cdc.NotFound):
			return r.gap(ctx, errors.New("changes of DynamoDB's stream were trimmed before their items were looked at"))
		case err != nil:
			r.failed("read the source's stream", err)
			_ = task.Sleep(ctx, r.times.Poll)
			continue
		}
		for i := range page.Changes {
			c := &page.Changes[i]
			if at.After = c.Sequence; len(c.Keys.Attributes()) == 0 {
				continue
			}
			key, err := r.Form.Row(c.Keys)
			if err != nil {
				continue // no row belongs to such an item
			}
			r.hand.record(&e.track, c.Sequence.String(), c.Time, &key)
		}
		if page.End {
			r.mu.Lock()
			e.ended = true
			r.mu.Unlock()
			return nil
		}
		_ = task.Sleep(ctx, r.times.Poll)
	}
	return nil
}

// saveEcho writes the position up to which the items of all changes were looked at.
func (r *reign) saveEcho(ctx context.Context, e *echo) error {
	r.hand.mu.Lock()
	m, rest := e.track.settled(), len(e.track.marks)
	r.hand.mu.Unlock()
	r.mu.Lock()
	done := e.ended && rest == 0
	r.mu.Unlock()
	if m == nil && done == e.record.Done {
		return nil
	}
	next := e.record
	if next.Done = done; m != nil {
		position, err := cdc.ParseSequenceNumber(m.token)
		if err != nil {
			return err
		}
		next.Position = position
	}
	if err := r.Ledger.SaveFallbackShard(ctx, r.Source, &next); err != nil {
		return err
	}
	e.record = next
	return nil
}
