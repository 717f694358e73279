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

// loader copies the items that the table already holds.
type loader struct {
	*common
	applier      applier
	fencing      *fencing
	mapping      *transform.Mapping
	database     Database
	witnesses    *witnesses
	wakeAssigner *task.Wakeup // with Once it waits for the load

	wanted   bool // the table is to be loaded
	joined   bool // by a pattern: it is left when it is dropped
	segments int  // how many scans run side by side
	rows     func() *backfill.Throttle
	meter    backfill.Meter // of the load that runs here; Save, which is never called twice at once, adds to it
}

// loadStore keeps how far a load has come; *checkpoint.Keeper is one.
type loadStore interface {
	Renew(ctx context.Context) error
	Scan() []byte
	SaveScan(ctx context.Context, progress []byte, pace checkpoint.Pace) error
}

// copy loads the items the table already holds, once: after every root of the stream was read at
// the horizon, so that no change falls between the image and the stream.
func (l *loader) copy(life lifecycle, store loadStore) error {
	if !l.wanted {
		return nil
	}
	ctx := life.work
	state, err := l.admitted(life)
	if err != nil || life.draining() || state.Loaded() || state.NeedsLoad {
		return err
	}
	state, err = l.begin(life, state)
	if errors.Is(err, sink.ErrFenced) || life.draining() && !fatal(err) {
		return nil // as below
	}
	if err != nil {
		return err
	}
	progress, err := l.progress(life, store, state.Generation)
	if err != nil && life.draining() {
		return nil
	}
	if err != nil {
		return err
	}
	l.meter = backfill.Meter{}
	l.meter.Add(task.Mono(ctx), progress.Items)
	l.events.CopyStarted(l.source, state.Load.Estimate, progress.Items)
	defer l.events.CopyLeft(l.source)
	scan := l.scan(life, state.Generation, store, &right{fencing: l.fencing, renew: store.Renew, generation: state.Generation})
	scan.Source = stoppable{l.database, life.drain}
	progress, err = scan.Run(ctx, progress)
	if err == nil {
		err = l.loaded(life, state, progress)
	}
	switch {
	case fatal(err): // whatever else has failed beside it
	case errors.Is(err, errStopped):
		return nil // between two pages, with the progress saved
	case errors.Is(err, sink.ErrFenced):
		return nil // the generation rose: the table needs another load than this
	case life.draining():
		return nil // a stop ends the waits between attempts, and the last attempt had failed
	}
	return err
}

// progress is how far the copy came before. One that cannot be read is a trouble of the keeper
// lease until somebody mends it, by a version that reads it, for example: a copy from the beginning
// would hide that the ledger is damaged.
func (l *loader) progress(life lifecycle, store loadStore, generation uint32) (p backfill.Progress, err error) {
	err = l.retry(life, "read the copy's progress", func(context.Context) error {
		p, err = backfill.ReadProgress(store.Scan(), generation)
		return err
	})
	return p, err
}

// run is copy of a table that may be dropped meanwhile: a named one is kept all the same, as long
// as its stream can be read.
func (l *loader) run(life lifecycle, store loadStore) error {
	for {
		err := l.copy(life, store)
		if l.joined || !cdc.Is(err, cdc.NotFound) || !gone(l.database.Describe(life.work, l.source)) {
			return err
		}
		if life.rest(l.timing.List) != nil {
			return nil
		}
	}
}

// errStopped ends a scan when the process is asked to stop.
var errStopped = errors.New("asked to stop")

// stoppable gives no further page once a drain has begun.
type stoppable struct {
	backfill.ScanSource
	drain context.Context
}

func (s stoppable) Scan(ctx context.Context, table string, segment, total int, after attribute.Item, limit int) (backfill.ScanPage, error) {
	if s.drain.Err() != nil {
		return backfill.ScanPage{}, errStopped
	}
	return s.ScanSource.Scan(ctx, table, segment, total, after, limit)
}

// admitted waits until a load may begin, or need not.
func (l *loader) admitted(life lifecycle) (checkpoint.TableState, error) {
	for {
		var v view
		err := l.retry(life.finishing(), "look at the ledger", func(ctx context.Context) (err error) {
			v, err = l.look(ctx)
			return err
		})
		if err != nil || v.state.Loaded() || v.state.NeedsLoad {
			return v.state, err
		}
		if checkpoint.Admissible(v.state, v.shards, l.ledger.ServiceTime(life.work)) == nil {
			return v.state, nil
		}
		if life.rest(l.timing.Pass) != nil {
			return v.state, nil
		}
	}
}

// begin notes when the load began, unless it goes on. The generation must still be the one that was
// looked at: a gap that was declared since asks for another load than this, and what was admissible
// then may not be now.
func (l *loader) begin(life lifecycle, state checkpoint.TableState) (checkpoint.TableState, error) {
	var d backfill.Description
	err := l.retry(life, "describe the table", func(ctx context.Context) (err error) {
		if d, err = l.database.Describe(ctx, l.source); err == nil && d.At.IsZero() {
			err = errTimeless
		}
		return err
	})
	if err != nil {
		return state, err
	}
	now := d.At // the service's clock, which the first reads are told by as well
	generation := state.Generation
	if state.Load.Generation != generation && (state.Load.Generation > 0 || state.GapCount > 0) { // else nothing was written in an earlier one
		if err := l.retry(life, "raise the fence", l.fencing.raiseAll); err != nil {
			return state, err
		}
	}
	err = l.retry(life, "begin the copy", func(ctx context.Context) (err error) {
		state, err = l.ledger.UpdateTable(ctx, l.source, func(s *checkpoint.TableState) error {
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

func (l *loader) scan(life lifecycle, generation uint32, store loadStore, right *right) *backfill.Scan {
	return &backfill.Scan{
		Table: l.source, Generation: generation, Segments: l.segments,
		Rows: l.rows(),
		Write: func(ctx context.Context, items []attribute.Item, readAt time.Time) error {
			batch := transform.Load(l.mapping, items, generation, readAt)
			batch.Read = transform.Reading{At: readAt, Mono: task.Mono(ctx)}
			return l.applier.write(life.within(ctx), right, &batch, nil, new(pageSlot)) // the scan bounds its pages itself
		},
		Save: func(ctx context.Context, p backfill.Progress) error { return l.save(ctx, store, p) },
		Retry: func(ctx context.Context, op func(ctx context.Context) error) error {
			return l.retry(life.within(ctx), "copy", op)
		},
		Events: backfill.Events{
			Copied:    func(items int) { l.events.Copied(l.source, int64(items)) },
			Throttled: func(waited time.Duration) { l.waited(life.work, limitRows, waited) },
		},
	}
}

func (l *loader) save(ctx context.Context, store loadStore, p backfill.Progress) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return store.SaveScan(ctx, text, l.pace(ctx, p.Items))
}

// errRaised is why a load that has read everything is not complete after all.
var errRaised = fmt.Errorf("while the table was loaded: %w", sink.ErrFenced)

// loaded marks the load complete, if the target still is the one that it wrote to and its images
// still join the stream. The witness is looked at once more, because what was copied before a loss
// of the target went with it, and the keeper's next beat may be a minute away. Coverage is looked
// at again, because a root may have been listed, and read for the first time, since the load began.
func (l *loader) loaded(life lifecycle, state checkpoint.TableState, p backfill.Progress) error {
	err := l.retry(life, "complete the copy", func(ctx context.Context) error {
		if err := l.witnesses.beat(life); err != nil {
			return err
		}
		v, err := l.look(ctx)
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
			return cmp.Or(l.raise(life, state.Generation, checkpoint.DeclaredGap{
				Kind: checkpoint.KindStream, Reason: hole.Error(), LostFrom: state.Load.StartedAt.Add(-checkpoint.Slack),
			}, nil), errRaised)
		}
		_, err = l.ledger.UpdateTable(ctx, l.source, func(s *checkpoint.TableState) error {
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
		l.events.CopyDone(l.source, p.Items)
		l.wakeAssigner.Signal()
	}
	return err
}
