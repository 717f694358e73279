package pipeline

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/follow"
	"github.com/dynamodb-bigtable/replicator/internal/stream"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Rehearsal is the result of a dry run of one table.
type Rehearsal struct {
	Table string
	// Items is the number of items that were read. A load would write Rows rows with Cells cells
	// for them.
	Items, Rows, Cells int64
	// Shards is the number of listed shards of the stream. Changes is the number of changes in
	// them.
	Shards  int
	Changes int64
	// Unmappable counts the items that could not be mapped, by reason. Reasons contain no item
	// data.
	Unmappable map[string]int64
}

const (
	// rehearsalPages is the number of consecutive empty pages after which a dry run stops reading
	// an open shard. A dry run needs to read a large part of the stream, but not all of it.
	rehearsalPages = 3
	// rehearsalShards is the number of shards that are read concurrently.
	rehearsalShards = 16
	// rehearsalReasons is the maximum number of distinct reasons that are kept. Reasons may contain
	// sizes, so there may be very many.
	rehearsalReasons = 100
	otherReasons     = "other reasons"
)

// DryRun reads and maps one table. It reads every item once. It reads every listed shard from the
// horizon until the shard ends, is empty, or has changes from after the start. It writes nothing,
// not even to the ledger. Of the options, it needs Database, Open, Events and Timing. If the
// configuration names an export, it also needs Folders.
func DryRun(ctx context.Context, o engine.Options, spec engine.Spec) (Rehearsal, error) {
	o.Timing = o.Timing.OrDefault(0)
	o.Events = o.Events.OrSilent()
	r := newRehearsal(&o, spec)
	d, err := r.describe(ctx)
	if err != nil {
		return Rehearsal{}, err
	}
	if err := r.load(ctx, d); err != nil {
		return Rehearsal{}, err
	}
	if err := r.stream(ctx, d.StreamARN); err != nil {
		return Rehearsal{}, err
	}
	return r.found, nil
}

type rehearsal struct {
	*engine.Retrier
	spec     engine.Spec
	database engine.Database
	open     func(streamARN string) cdc.Source
	from     source.Ends
	poll     time.Duration

	mu    sync.Mutex
	found Rehearsal
}

func newRehearsal(o *engine.Options, spec engine.Spec) *rehearsal {
	table := spec.Mapping.Source
	return &rehearsal{
		Retrier: &engine.Retrier{Source: table, Events: o.Events}, spec: spec, database: o.Database, open: o.Open, poll: o.Timing.Poll,
		from:  source.Ends{Table: table, Scan: o.Database, Folders: o.Folders},
		found: Rehearsal{Table: table, Unmappable: map[string]int64{}},
	}
}

func (r *rehearsal) describe(ctx context.Context) (d backfill.Description, err error) {
	err = r.Retry(engine.Until(ctx), "describe the table (DescribeTable)", func(ctx context.Context) error {
		d, err = r.database.Describe(ctx, r.Source)
		return err
	})
	if err != nil {
		return d, err
	}
	return d, engine.CheckStream(d, engine.NeedsOldImages(r.spec.Mapping, r.spec.Late))
}

// load reads and maps the items that a copy would write.
func (r *rehearsal) load(ctx context.Context, d backfill.Description) error {
	r.Events.CopyStarted(r.Source, d.Items, 0)
	defer r.Events.CopyLeft(r.Source)
	images, err := r.images(ctx, d)
	if err != nil {
		return err
	}
	limits, total := r.limits(), images.Size().Parts
	g := task.NewGroup(ctx, max(r.spec.Segments, 1))
	for index := range total {
		in, err := images.Part(index)
		if err != nil {
			return err
		}
		part := backfill.Part{
			Index: index, Total: total, Source: in.PartSource, Limits: limits,
			Write: r.rehearse,
			Save:  func(context.Context, checkpoint.PartProgress) error { return nil },
			Retry: func(ctx context.Context, op func(ctx context.Context) error) error {
				return r.Retry(engine.Until(ctx), "scan", op)
			},
			Events: backfill.PartEvents{
				Copied: func(items int) { r.Events.Copied(r.Source, int64(items)) },
				Waited: func(rows, units time.Duration) {
					r.Events.Throttled(r.Source, engine.LimitRows, rows)
					r.Events.Throttled(r.Source, engine.LimitUnits, units)
				},
			},
		}
		g.Go(fmt.Sprintf("segment %d", index), func(ctx context.Context) error {
			defer func() { _ = in.Close() }() // after reads, the error does not matter
			_, err := part.Run(ctx, ctx, checkpoint.PartProgress{})
			return err
		})
	}
	err = g.Wait()
	if err == nil {
		r.Events.CopyDone(r.Source, r.found.Items)
	}
	return err
}

// images opens the export that the first load would copy, if the configuration names one.
func (r *rehearsal) images(ctx context.Context, d backfill.Description) (images source.Images, err error) {
	err = r.Retry(engine.Until(ctx), "read the export", func(ctx context.Context) error {
		if images, err = source.Open(ctx, r.from, r.spec.From.Address); err == nil {
			images, err = images.Fit(source.Wanted{Table: d, Mapping: r.spec.Mapping, Late: r.spec.Late, Segments: r.spec.Segments})
		}
		return err
	})
	return images, err
}

// limits returns the configured limits.
func (r *rehearsal) limits() *backfill.Limits {
	limits := backfill.NewLimits(0, 0)
	limits.UseRows(r.spec.Throttle())
	return limits
}

// rehearse maps a page of items, as a load would.
func (r *rehearsal) rehearse(_ context.Context, page backfill.Page, readAt time.Time) error {
	items := page.Items
	if r.spec.SkipExpired {
		items, _ = r.spec.Mapping.Unexpired(items, readAt)
	}
	batch := transform.Load(r.spec.Mapping, items, 1, readAt)
	r.count(&batch)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found.Items += int64(len(items))
	for _, row := range batch.Rows {
		if !row.Remove {
			r.found.Rows++
			r.found.Cells += int64(len(row.Cells))
		}
	}
	return nil
}

// stream reads the listed shards. It skips changes and shards that are trimmed meanwhile, because
// they would be no gap for a run that starts later.
func (r *rehearsal) stream(ctx context.Context, arn string) error {
	listing, err := stream.ListShards(engine.Until(ctx), r.Retrier, r.open(arn), "")
	if err != nil {
		return err
	}
	r.found.Shards = len(listing.Shards)
	source := r.open(arn)
	g := task.NewGroup(ctx, rehearsalShards)
	for _, shard := range listing.Shards {
		g.Go("read "+shard.ID, func(ctx context.Context) error {
			err := r.shard(ctx, &cdc.Reader{Source: source, Shard: shard.ID})
			if cdc.Is(err, cdc.Trimmed) || cdc.Is(err, cdc.NotFound) {
				return nil
			}
			return err
		})
	}
	return g.Wait()
}

func (r *rehearsal) shard(ctx context.Context, reader *cdc.Reader) error {
	var at checkpoint.Progress
	var began time.Time
	for empty := 0; empty < rehearsalPages; {
		page, asked, err := r.Read(engine.Until(ctx), reader, at.Position, new(engine.PageSlot))
		if err != nil {
			return err
		}
		sent := r.TimeOf(ctx, asked)
		batch := transform.Fold(r.spec.Mapping, page.Changes, transform.Stamp{Generation: 1, Hop: 1, NotBefore: at.CellTime})
		r.count(&batch)
		r.mu.Lock()
		r.found.Changes += int64(len(page.Changes))
		r.mu.Unlock()
		if page.End {
			return nil
		}
		if began.IsZero() {
			if began = page.At; began.IsZero() {
				began = sent
			}
		}
		if at = follow.Advance(at, page, batch.Latest, sent); at.EventTime.After(began) {
			return nil // stop here: the stream of a busy table never returns an empty page
		}
		if !at.CaughtUp {
			empty = 0
			continue
		}
		if empty++; empty < rehearsalPages {
			if err := task.Sleep(ctx, r.poll); err != nil {
				return err
			}
		}
	}
	return nil
}

// count records the items that could not be mapped.
func (r *rehearsal) count(batch *transform.Batch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range batch.Parked {
		reason := p.Reason
		if _, known := r.found.Unmappable[reason]; !known && len(r.found.Unmappable) >= rehearsalReasons {
			reason = otherReasons
		}
		r.found.Unmappable[reason]++
	}
}
