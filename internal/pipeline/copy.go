package pipeline

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// copy loads the items the table already holds, once: after every root of the stream was read at the horizon, so that no change
// falls between the image and the stream.
func (t *table) copy(stop, ctx context.Context, keeper *checkpoint.Keeper) error {
	if !t.Copy {
		return nil
	}
	state, err := t.admitted(stop, ctx)
	if err != nil || stop.Err() != nil || state.Loaded() || state.NeedsLoad {
		return err
	}
	state, err = t.begin(stop, ctx, state)
	if errors.Is(err, sink.ErrFenced) || stop.Err() != nil && !fatal(err) {
		return nil // as below
	}
	if err != nil {
		return err
	}
	progress, err := t.progress(stop, ctx, keeper, state.Generation)
	if err != nil && stop.Err() != nil {
		return nil
	}
	if err != nil {
		return err
	}
	t.meter = backfill.Meter{}
	t.meter.Add(task.Mono(ctx), progress.Items)
	t.events.CopyStarted(t.source, state.Load.Estimate, progress.Items)
	defer t.events.CopyLeft(t.source)
	scan := t.scan(stop, ctx, state.Generation, keeper)
	scan.Source = stoppable{t.Database, stop}
	progress, err = scan.Run(ctx, progress)
	if err == nil {
		err = t.loaded(stop, ctx, state, progress)
	}
	switch {
	case fatal(err): // whatever else has failed beside it
	case errors.Is(err, errStopped):
		return nil // between two pages, with the progress saved
	case errors.Is(err, sink.ErrFenced):
		return nil // the generation rose: the table needs another load than this
	case stop.Err() != nil:
		return nil // a stop ends the waits between attempts, and the last attempt had failed
	}
	return err
}

// progress is how far the copy came before. One that cannot be read is a trouble of the seat until somebody mends it, by a version that
// reads it, for example: a copy from the beginning would hide that the ledger is damaged.
func (t *table) progress(stop, ctx context.Context, keeper *checkpoint.Keeper, generation uint32) (p backfill.Progress, err error) {
	err = t.retryUntil(stop, ctx, "read the copy's progress", func(context.Context) error {
		p, err = backfill.ReadProgress(keeper.Scan(), generation)
		return err
	})
	return p, err
}

// copyWhileThere is copy of a table that may be dropped meanwhile: a named one is kept all the same, as long as its stream can be read.
func (t *table) copyWhileThere(stop, ctx context.Context, keeper *checkpoint.Keeper) error {
	for {
		err := t.copy(stop, ctx, keeper)
		if t.Joined || !cdc.Is(err, cdc.NotFound) || !gone(t.Database.Describe(ctx, t.source)) {
			return err
		}
		if task.SleepWithin(ctx, stop, t.Timing.List) != nil {
			return nil
		}
	}
}

// errStopped ends a scan when the process is asked to stop.
var errStopped = errors.New("asked to stop")

// stoppable gives no further page once stop has ended.
type stoppable struct {
	backfill.ScanSource
	stop context.Context
}

func (s stoppable) Scan(ctx context.Context, table string, segment, total int, after attribute.Item, limit int) (backfill.ScanPage, error) {
	if s.stop.Err() != nil {
		return backfill.ScanPage{}, errStopped
	}
	return s.ScanSource.Scan(ctx, table, segment, total, after, limit)
}

// admitted waits until a load may begin, or need not.
func (t *table) admitted(stop, ctx context.Context) (checkpoint.TableState, error) {
	for {
		var v view
		err := t.retry(ctx, "look at the ledger", func(ctx context.Context) (err error) {
			v, err = t.look(ctx)
			return err
		})
		if err != nil || v.state.Loaded() || v.state.NeedsLoad {
			return v.state, err
		}
		if checkpoint.Admissible(v.state, v.shards, t.Ledger.ServiceTime(ctx)) == nil {
			return v.state, nil
		}
		if task.SleepWithin(ctx, stop, t.Timing.Pass) != nil {
			return v.state, nil
		}
	}
}

// begin notes when the load began, unless it goes on. The generation must still be the one that was looked at: a gap that was declared since
// asks for another load than this, and what was admissible then may not be now.
func (t *table) begin(stop, ctx context.Context, state checkpoint.TableState) (checkpoint.TableState, error) {
	var d backfill.Description
	err := t.retryUntil(stop, ctx, "describe the table", func(ctx context.Context) (err error) {
		if d, err = t.Database.Describe(ctx, t.source); err == nil && d.At.IsZero() {
			err = errTimeless
		}
		return err
	})
	if err != nil {
		return state, err
	}
	now := d.At // the service's clock, which the first reads are told by as well
	generation := state.Generation
	err = t.retryUntil(stop, ctx, "begin the copy", func(ctx context.Context) (err error) {
		state, err = t.Ledger.UpdateTable(ctx, t.source, func(s *checkpoint.TableState) error {
			if s.Generation != generation {
				return errRaised
			}
			if s.Load.Generation != s.Generation {
				s.Load = checkpoint.Load{Generation: s.Generation, StartedAt: now.UTC(), Estimate: d.Items}
			}
			return nil
		})
		return err
	})
	return state, err
}

func (t *table) scan(stop, ctx context.Context, generation uint32, keeper *checkpoint.Keeper) *backfill.Scan {
	rows := t.Rows
	if rows == nil {
		rows = backfill.NewThrottle(t.RowsPerSecond)
	}
	return &backfill.Scan{
		Table: t.source, Generation: generation, Segments: t.Segments,
		Rows: rows,
		Write: func(ctx context.Context, items []attribute.Item, readAt time.Time) error {
			batch := transform.Load(t.Mapping, items, generation, readAt)
			batch.Read = transform.Reading{At: readAt, Mono: task.Mono(ctx)}
			return t.write(ctx, &batch, nil, new(hand)) // the scan bounds its pages itself
		},
		Save: func(ctx context.Context, p backfill.Progress) error { return t.save(ctx, keeper, p) },
		Retry: func(ctx context.Context, op func(ctx context.Context) error) error {
			return t.retryUntil(stop, ctx, "copy", op)
		},
		Events: backfill.Events{
			Copied:    func(items int) { t.events.Copied(t.source, int64(items)) },
			Throttled: func(waited time.Duration) { t.waited(ctx, limitRows, waited) },
		},
	}
}

func (t *table) save(ctx context.Context, keeper *checkpoint.Keeper, p backfill.Progress) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return keeper.SaveScan(ctx, text, t.pace(ctx, p.Items))
}

// errRaised is why a load that has read everything is not complete after all.
var errRaised = fmt.Errorf("while the table was loaded: %w", sink.ErrFenced)

// loaded marks the load complete, if the target still is the one that it wrote to and its images still join the stream. The witness is looked at
// once more, because what was copied before a loss of the target went with it, and the keeper's next beat may be a minute away. Coverage is
// looked at again, because a root may have been listed, and read for the first time, since the load began.
func (t *table) loaded(stop, ctx context.Context, state checkpoint.TableState, p backfill.Progress) error {
	err := t.retryUntil(stop, ctx, "complete the copy", func(ctx context.Context) error {
		if err := t.beat(ctx); err != nil {
			return err
		}
		v, err := t.look(ctx)
		if err != nil {
			return err
		}
		if v.state.Generation != state.Generation {
			return errRaised
		}
		var hole *checkpoint.NotAdmissible
		if err := checkpoint.Admissible(v.state, v.shards, state.Load.StartedAt); errors.As(err, &hole) {
			if hole.Yet {
				return hole // repeated until the root that was listed late is read
			}
			return cmp.Or(t.raise(ctx, state.Generation, checkpoint.Gap{
				Kind: checkpoint.KindStream, Reason: hole.Error(), LostFrom: state.Load.StartedAt.Add(-checkpoint.Slack),
			}, nil), errRaised)
		}
		_, err = t.Ledger.UpdateTable(ctx, t.source, func(s *checkpoint.TableState) error {
			if s.Generation != state.Generation {
				return errRaised
			}
			s.Load.Items, s.Load.DoneAt = p.Items, task.Now(ctx).UTC()
			return nil
		})
		return err
	})
	if errors.Is(err, sink.ErrFenced) {
		return nil
	}
	if err == nil {
		t.events.CopyDone(t.source, p.Items)
		t.bell.Ring()
	}
	return err
}
