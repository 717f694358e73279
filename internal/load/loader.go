package load

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/job"
	"github.com/dynamodb-bigtable/replicator/internal/source"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Loader executes parts of a table's load: it copies segments of the source, and sweeps ranges of
// the target. Every worker has a loader. It finds its work in the ledger, which holds the
// conductor's plan.
type Loader struct {
	*engine.Common
	applier   engine.Applier
	publisher engine.Publisher
	fencing   *engine.Fencing
	mapping   *transform.Mapping
	database  engine.Database
	target    sink.MarkReader
	settings  loadSettings
	sources   *source.Opener
	loop      *job.Loop
	rows      *backfill.Throttle // the limiter of the configured rate
	own       *backfill.Throttle // the limiter of an operator's rate
	rampUp    func(ctx context.Context, elapsed time.Duration) float64
}

// loadSettings are the configuration's settings of loads.
type loadSettings struct {
	wanted      bool // the first load starts automatically
	again       bool // loads after a gap start automatically
	owned       bool // this program writes every row of the target
	shared      bool // another migration may write the target
	skipExpired bool // items past their time to live are not copied
	mode        checkpoint.LoadMode
	segments    int // parts at the same time in this worker
	limits      func() checkpoint.Limits
	// live reports that the limits may change while a load runs, including the table's own limit on
	// rows.
	live     bool
	imageAge time.Duration // the writer parks images that are older; 0 for none
	// late is the maximum time between a change and the application's own write to the target.
	late  time.Duration
	named source.Named // the first load copies this export; zero for a scan
}

// New returns the two loops for a table's loads: the loader of this worker, and the conductor. The
// conductor works only under the coordinator lease.
func New(s *engine.Table) (*Loader, *Conductor) {
	p, spec := s.Worker, s.Spec
	settings := loadSettings{
		wanted: spec.Copy, again: spec.Copy && spec.LoadAgain, owned: spec.Owned, shared: spec.Shared, skipExpired: spec.SkipExpired,
		mode: spec.LoadMode, segments: max(spec.Segments, 1), limits: spec.Bounds(), live: spec.LiveLimits != nil && spec.Rows == nil, late: spec.Late, named: spec.From,
	}
	if p.Writer != nil {
		settings.imageAge = p.Writer.MaxImageAge()
	}
	sources := &source.Opener{From: source.Ends{Table: s.Source, Scan: s.Database, Folders: p.Folders}}
	l := &Loader{
		Common: s.Common, applier: s.Applier(nil), publisher: s.Publisher, fencing: s.Fencing, mapping: s.Mapping, database: s.Database,
		target: p.Target, settings: settings, sources: sources, rows: spec.Throttle(), own: backfill.NewThrottle(0),
		rampUp: p.RampUp,
	}
	l.loop = job.New(s, kind{l}, job.Options{
		Verb: "load", AtOnce: settings.segments, Workers: s.Workers, Wake: &s.Wake.Loader, Left: s.Wake.Conductor.Signal,
	})
	return l, &Conductor{
		Common: s.Common, mapping: s.Mapping, database: s.Database, target: p.Target, witnesses: s.Witnesses, fencing: s.Fencing, busy: p.Busy,
		settings: settings, writer: p.Writer, sources: sources, exporter: p.Exporter, joined: spec.Joined, wake: &s.Wake.Conductor, wakeLoader: &s.Wake.Loader,
		wakeAssigner: &s.Wake.Assigner,
	}
}

// Run leases parts and executes them until a drain begins.
func (l *Loader) Run(life engine.Lifecycle) error { return l.loop.Run(life, nil) }

// work executes the part from its saved position to its end.
func (l *Loader) work(life engine.Lifecycle, state checkpoint.TableState, lease *checkpoint.PartLease, r *engine.Right) error {
	part := lease.Part()
	var to checkpoint.PartProgress
	var err error
	if part.Phase == checkpoint.PhaseCopy {
		to, err = l.copy(life, state, lease, r)
	} else {
		to, err = l.sweep(life, state, lease, r)
	}
	if err != nil {
		return err
	}
	return l.Retry(life.Finishing(), "finish a part", func(ctx context.Context) error { return lease.Finish(ctx, to) })
}

// imageAgeMargin is the time that is reserved for the write of an image, with all its retries.
const imageAgeMargin = 6 * time.Hour

// copy copies a part of the load's source.
func (l *Loader) copy(life engine.Lifecycle, state checkpoint.TableState, lease *checkpoint.PartLease, r *engine.Right) (checkpoint.PartProgress, error) {
	part := lease.Part()
	images, err := l.images(life, state, part.Index)
	if err != nil {
		return part.PartProgress, err
	}
	defer func() { _ = images.Close() }() // after reads, the error does not matter
	p := backfill.Part{
		Index: part.Index, Total: part.Total,
		Source: images.PartSource,
		Write: func(ctx context.Context, page backfill.Page, readAt time.Time) error {
			seen, items := readAt, page.Items
			if !images.At.IsZero() {
				readAt, seen = images.At, l.now(ctx)
				if err := source.YoungEnough("export", checkpoint.Aged(readAt, state.AdoptedAt), seen, l.settings.imageAge-imageAgeMargin); err != nil {
					return err
				}
			}
			if l.settings.skipExpired {
				items, _ = l.mapping.Unexpired(items, readAt)
			}
			if err := l.publisher.PublishLoad(life.Within(ctx), state, part, l.mapping, items, page.Changes, readAt); err != nil {
				return err
			}
			batch := l.pageOf(state, items, page.Changes, readAt)
			if !images.At.IsZero() {
				for i := range batch.Rows {
					batch.Rows[i].At = checkpoint.Aged(readAt, state.AdoptedAt)
				}
			}
			batch.Read = transform.Reading{At: seen, Mono: task.Mono(ctx)}
			// This write needs no page slot, because the number of parts is bounded.
			return l.applier.Write(life.Within(ctx), r, &batch, nil, new(engine.PageSlot))
		},
		Save: lease.Commit,
		Retry: func(ctx context.Context, op func(ctx context.Context) error) error {
			return l.Retry(life.Within(ctx), "copy", op)
		},
		Limits: l.loop.Limits,
		Events: backfill.PartEvents{
			Copied: func(items int) { l.Events.Copied(l.Source, int64(items)) },
			Waited: func(rows, units time.Duration) {
				l.Waited(life.Work, engine.LimitRows, rows)
				l.Waited(life.Work, engine.LimitUnits, units)
			},
		},
	}
	return p.Run(life.Drain, life.Work, part.PartProgress)
}

// sweep sweeps a range of a target table. Pass 0 only counts rows.
func (l *Loader) sweep(life engine.Lifecycle, state checkpoint.TableState, lease *checkpoint.PartLease, r *engine.Right) (checkpoint.PartProgress, error) {
	part := lease.Part()
	if part.Index >= len(state.Load.Sweep.Ranges) {
		return checkpoint.PartProgress{}, fmt.Errorf("%w: no range for part %d of the sweep", checkpoint.ErrConflict, part.Index)
	}
	at, from := state.Load.Sweep.Ranges[part.Index], backfill.SweepProgress{}
	err := l.Retry(life, "read the progress of the sweep", func(context.Context) error { // retried, so the lease shows the failure until it is fixed
		if part.Position != nil && json.Unmarshal(part.Position, &from) != nil {
			// The message has no item data.
			return fmt.Errorf("%w: the position of part %d of the sweep is invalid", backfill.ErrProgress, part.Index)
		}
		return nil
	})
	if err == nil {
		err = l.hear(life)
	}
	if err != nil {
		return checkpoint.PartProgress{}, err
	}
	progress := func(p backfill.SweepProgress) (checkpoint.PartProgress, error) {
		position, err := json.Marshal(p)
		return checkpoint.PartProgress{Position: position, Items: p.Sums.Seen, Units: p.Sums.Units, Counts: checkpoint.Counts{
			Seen: p.Sums.Suspects, Put: p.Sums.Put, Removed: p.Sums.Removed, Bare: p.Sums.Bare, Left: p.Sums.Left, Unexplained: p.Sums.Unexplained,
		}}, err
	}
	target := l.target
	if !slices.Contains(l.mapping.Tables(), at.Table) {
		target = engine.Vanishing{MarkReader: target}
	}
	s := backfill.Sweep{
		Sweeping: sweeping(l.mapping, r.Former, at.Table, state, l.settings),
		Range:    sink.Range{From: string(at.From), To: string(at.To)},
		Target:   target,
		Source:   l.database,
		Write: func(ctx context.Context, b *transform.Batch) error {
			return l.applier.Write(life.Within(ctx), r, b, nil, new(engine.PageSlot))
		},
		Clean: func(ctx context.Context, entries []sink.Entry) error {
			return l.applier.Clean(life.Within(ctx), r, at.Table, entries)
		},
		Save: func(ctx context.Context, p backfill.SweepProgress) error {
			to, err := progress(p)
			if err == nil {
				err = lease.Commit(ctx, to)
			}
			if err == nil && life.Draining() {
				err = backfill.ErrDrained
			}
			return err
		},
		Retry: func(ctx context.Context, op func(ctx context.Context) error) error {
			return l.Retry(life.Within(ctx), "sweep", op)
		},
		Pace: func(ctx context.Context, units float64) error {
			_, waited, err := l.loop.Limits.Take(life.Drain, ctx, 0, units)
			if waited > 0 {
				l.Waited(life.Work, engine.LimitUnits, waited)
			}
			if life.Draining() {
				return nil // the next save ends the part
			}
			return err
		},
		Now:    l.now,
		DryRun: state.Load.Sweep.Pass == 0,
	}
	// A row that the application wrote has no version until the stream brings its change.
	if l.settings.late > 0 {
		s.AppliedTo = l.AppliedTo
	}
	p, err := s.Run(life.Work, from)
	if err != nil {
		return checkpoint.PartProgress{}, err
	}
	return progress(p)
}

// sweeping describes the rows that a sweep of the table's generation removes from a target table. A
// table that only former mappings wrote may now belong to another program. There, rows without a
// version are kept.
func sweeping(m *transform.Mapping, former []sink.Former, table string, state checkpoint.TableState, settings loadSettings) sink.Sweeping {
	s := sink.Sweeping{
		Mapping: m, Former: former, Table: table, Generation: state.Generation, Written: settings.late > 0, Shared: settings.shared,
		Owned: (settings.owned || state.MadeByUs && !settings.shared) && slices.Contains(m.Tables(), table),
	}
	if at := state.Load.Doubted(); !at.IsZero() && state.Load.Generation == state.Generation {
		s.Doubted = transform.LoadVersion(state.Generation, at)
	}
	return s
}

// hear waits for the source's time, if no answer has shown it yet. A worker may begin with a sweep
// before it reads the source. The versions and cells of a sweep must use the source's time, because
// this worker's clock may be hours ahead (H64).
func (l *Loader) hear(life engine.Lifecycle) error {
	return l.Retry(life, "read the source's time (DescribeTable)", func(ctx context.Context) error {
		if !l.Ledger.ServiceTime(ctx).IsZero() {
			return nil
		}
		_, err := l.database.Describe(ctx, l.Source)
		return err
	})
}

// now returns the source's time, which is used as the time of images. If the source's answers have
// no time, it returns this worker's time.
func (l *Loader) now(ctx context.Context) time.Time {
	if at := l.Ledger.ServiceTime(ctx); !at.IsZero() {
		return at
	}
	return task.Now(ctx)
}
