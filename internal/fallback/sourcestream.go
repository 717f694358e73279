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

// sourceShard is a shard of the source's stream in memory. The term's mu guards the last two fields.
type sourceShard struct {
	record    checkpoint.FallbackShard
	track     track
	ended     bool
	appliedTo time.Time // as the reader found it (cdc.Reader.AppliedTo)
}

// readSource reads the source's stream until ctx ends. Shards are read side by side and in no order.
func (r *term) readSource(ctx context.Context) error {
	g := task.NewGroup(ctx, 0)
	all := map[string]*sourceShard{}
	listed := time.Duration(-1)
	for ctx.Err() == nil { // before the switch, others write the items
		if p, err := r.prove(ctx); err == nil && p.mayWrite {
			break
		}
		_ = task.Sleep(ctx, r.times.Save)
	}
	for ctx.Err() == nil {
		if now := task.Mono(ctx); listed < 0 || now-listed >= r.times.Listing {
			if err := r.listSource(ctx, g, all); fatal(err) {
				return err
			} else if err != nil {
				r.failed("list the source's stream", err)
			} else {
				listed = now
			}
		}
		for _, id := range slices.Sorted(maps.Keys(all)) {
			if err := r.saveSourceShard(ctx, all[id]); err != nil {
				return err
			}
		}
		_ = task.Sleep(ctx, 10*r.times.Save)
	}
	return g.Wait()
}

// listSource begins to read each shard that the stream lists and that is not read. A shard without a
// record is read from where replicator's own reading has ended.
func (r *term) listSource(ctx context.Context, g *task.Group, all map[string]*sourceShard) error {
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
		if !has || record.Attempt != r.attempt {
			at := applied[s.ID]
			record.ID, record.Position, record.Done, record.AppliedTo = s.ID, at.Position, at.State == checkpoint.Done, time.Time{}
		}
		record.Attempt = r.attempt
		if record.Epoch = r.held.Epoch(); record.Done {
			continue
		}
		if err := r.Ledger.SaveFallbackShard(ctx, r.Source, &record); err != nil {
			return err
		}
		e := &sourceShard{record: record}
		all[s.ID] = e
		g.Go("read a shard of the source's stream", func(ctx context.Context) error { return r.readSourceShard(ctx, e) })
	}
	return nil
}

// readSourceShard reads one shard until it ends.
func (r *term) readSourceShard(ctx context.Context, e *sourceShard) error {
	reader := &cdc.Reader{Source: r.Stream, Shard: e.record.ID, AppliedTo: e.record.AppliedTo}
	at := cdc.Position{After: e.record.Position}
	for ctx.Err() == nil {
		for r.dirty.full() {
			if r.dirty.room.Wait(ctx, time.Second) != nil {
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
			r.dirty.record(&e.track, c.Sequence.String(), c.Time, &key)
		}
		r.mu.Lock()
		e.ended, e.appliedTo = page.End, reader.AppliedTo
		r.mu.Unlock()
		if page.End {
			return nil
		}
		_ = task.Sleep(ctx, r.times.Poll)
	}
	return nil
}

// saveIdle is the time between two writes of the record of an idle shard.
const saveIdle = 10 * time.Minute

// saveSourceShard writes the position up to which the items of all changes were looked at.
func (r *term) saveSourceShard(ctx context.Context, e *sourceShard) error {
	r.dirty.mu.Lock()
	m, rest := e.track.settled(), len(e.track.marks)
	r.dirty.mu.Unlock()
	next := e.record
	r.mu.Lock()
	next.Done = e.ended && rest == 0
	// The last change of an idle shard is trimmed after a day. Without this time, its position would
	// then count as lost.
	if rest == 0 && e.appliedTo.Sub(next.AppliedTo) >= saveIdle {
		next.AppliedTo = e.appliedTo
	}
	r.mu.Unlock()
	if m == nil && next == e.record {
		return nil
	}
	if m != nil {
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
