package load

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Loader works on parts of a table's load: it copies segments of the source and sweeps ranges of
// the target. Every worker has one. It looks at the ledger alone, as the assigner does; what there
// is to do the conductor says there.
type Loader struct {
	*engine.Common
	applier       engine.Applier
	publisher     engine.Publisher
	fencing       *engine.Fencing
	mapping       *transform.Mapping
	database      engine.Database
	target        sink.MarkReader
	shares        *engine.Shares // who works on the table
	settings      loadSettings
	exports       *exportReader
	limits        *backfill.Limits
	rows          *backfill.Throttle // of the configuration
	own           *backfill.Throttle // of an operator
	wake          *task.Wakeup
	wakeConductor *task.Wakeup // a part was left
}

// loadSettings are what a configuration says of loads.
type loadSettings struct {
	wanted      bool // the first load begins by itself
	again       bool // and one after a gap
	owned       bool // every row of the target is ours
	skipExpired bool // items past their time to live are not copied
	segments    int  // parts at once in this worker
	limits      func() checkpoint.Limits
	live        bool               // they may change, and the bound on rows, which is this table's own, with them
	imageAge    time.Duration      // above it the writer puts images aside; 0: never
	late        time.Duration      // how long after its change the application may write the target
	named       engine.NamedExport // that the first load copies; zero: it scans
}

// New makes the two loops of a table's loads: the loader of this worker, and the conductor, which
// works under the keeper lease.
func New(s *engine.Table) (*Loader, *Conductor) {
	p, spec := s.Worker, s.Spec
	settings := loadSettings{
		wanted: spec.Copy, again: spec.Copy && spec.LoadAgain, owned: spec.Owned, skipExpired: spec.SkipExpired,
		segments: max(spec.Segments, 1), limits: spec.Bounds(), live: spec.LiveLimits != nil && spec.Rows == nil, late: spec.Late, named: spec.Export,
	}
	if p.Writer != nil {
		settings.imageAge = p.Writer.MaxImageAge()
	}
	exports := &exportReader{open: p.Exports}
	return &Loader{
			Common: s.Common, applier: s.Applier(nil), publisher: s.Publisher, fencing: s.Fencing, mapping: s.Mapping, database: s.Database,
			target: p.Target, shares: p.Shares, settings: settings, exports: exports, limits: backfill.NewLimits(0, 0), rows: spec.Throttle(),
			own: backfill.NewThrottle(0), wake: &s.Wake.Loader, wakeConductor: &s.Wake.Conductor,
		}, &Conductor{
			Common: s.Common, mapping: s.Mapping, database: s.Database, target: p.Target, witnesses: s.Witnesses, fencing: s.Fencing, busy: p.Busy,
			settings: settings, exports: exports, exporter: p.Exporter, joined: spec.Joined, wake: &s.Wake.Conductor, wakeLoader: &s.Wake.Loader,
			wakeAssigner: &s.Wake.Assigner,
		}
}

// Run takes parts and works on them until a drain begins.
func (l *Loader) Run(life engine.Lifecycle) error {
	held := engine.NewHoldings(life, func() {
		l.wake.Signal()
		l.wakeConductor.Signal()
	})
	s := &shift{Loader: l, held: held, watch: l.Ledger.NewWatch()}
	defer s.end()
	for !life.Draining() && held.Life.Work.Err() == nil {
		err := l.Retry(held.Life, "look for parts of a load", func(ctx context.Context) error { return s.look(ctx) })
		if engine.Fatal(err) {
			if err := l.End(err); err != nil {
				held.Tasks.Fail(err)
			}
			break
		}
		if err != nil && !life.Draining() {
			l.Events.Retry(l.Source, "look for parts of a load", l.Timing.Pass, err)
		}
		_ = l.wake.Wait(life.Drain, l.Timing.Pass)
	}
	s.end()
	return held.Tasks.Wait()
}

// shift is the work on one phase of one load.
type shift struct {
	*Loader
	held  *engine.Holdings
	watch *checkpoint.Watch

	over   context.CancelCauseFunc // ends the parts of the phase between two pages
	drain  context.Context
	number uint32
	phase  checkpoint.Phase

	provisioned *int64 // read capacity units a second of the source; nil: not asked for yet
}

// end lets the parts in hand be left.
func (s *shift) end() {
	if s.over != nil {
		s.over(backfill.ErrDrained)
		s.over = nil
		if s.phase == checkpoint.PhaseCopy {
			s.Events.CopyLeft(s.Source)
		}
	}
}

// look takes parts of the phase that the ledger says runs, and lets those of another one be left.
func (s *shift) look(ctx context.Context) error {
	state, _, err := s.Ledger.Table(ctx, s.Source)
	if err != nil {
		return err
	}
	phase, total := state.RunningPhase()
	runs := total > 0 && state.Load.Paused == "" && state.Suspended.Reason == "" && state.MappingHash == s.MappingHash
	if !runs || phase != s.phase || state.Load.Number != s.number {
		s.end()
	}
	if !runs {
		return nil
	}
	begun := false
	if s.over == nil {
		s.drain, s.over = context.WithCancelCause(s.held.Life.Drain)
		s.number, s.phase, s.provisioned = state.Load.Number, phase, nil
		begun = phase == checkpoint.PhaseCopy
	}
	rows, err := s.Ledger.Parts(ctx, state, phase)
	if err != nil {
		return err
	}
	if begun {
		s.Events.CopyStarted(s.Source, state.Load.Estimate, checkpoint.PartsDone(rows, total).Items)
	}
	free, others := s.watch.LookParts(rows, state, task.Mono(ctx))
	holders, all := map[string]int{}, 0
	for _, p := range others {
		holders[p.Owner]++
		all++
	}
	if err := s.pace(ctx, state, holders[s.Ledger.Worker()], all); err != nil {
		return err
	}
	for _, p := range checkpoint.PartsToTake(free, holders, s.Ledger.Worker(), s.shares.Workers(s.Source, s.Ledger.Worker()), s.settings.segments) {
		if err := s.take(state, p); err != nil {
			return err
		}
	}
	return nil
}

// take leases a part and works on it.
func (s *shift) take(state checkpoint.TableState, part checkpoint.Part) error {
	drain := s.drain
	err := s.held.Begin(fmt.Sprintf("part %d", part.Index), func(ctx context.Context) (func(life engine.Lifecycle) error, error) {
		var lease *checkpoint.PartLease
		stamps, err := fence.Prove(ctx, s.Ledger, s.tables(state, part), func(ctx context.Context) (err error) {
			lease, err = s.Ledger.TakePart(ctx, part)
			return err
		})
		s.Events.Tick()
		return func(life engine.Lifecycle) error {
			life.Drain = drain
			return s.hold(life, state, lease, stamps)
		}, err
	})
	switch {
	case engine.Fatal(err):
		return err
	case err != nil && !engine.IsAny(err, checkpoint.ErrTaken, checkpoint.ErrHalted, sink.ErrNoFence):
		s.Events.Retry(s.Source, "take a part of the load", s.Timing.Pass, err)
	}
	return nil
}

// tables are those that are written for a part.
func (l *Loader) tables(state checkpoint.TableState, part checkpoint.Part) []string {
	tables, ranges := l.mapping.Tables(), state.Load.Sweep.Ranges
	if part.Phase != checkpoint.PhaseCopy && part.Index < len(ranges) && !slices.Contains(tables, ranges[part.Index].Table) {
		tables = append(tables, ranges[part.Index].Table)
	}
	return tables
}

// hold works under a part's lease until the part is done, left, or not ours any more. It returns only what ends the process.
func (l *Loader) hold(life engine.Lifecycle, state checkpoint.TableState, lease *checkpoint.PartLease, stamps sink.Stamps) error {
	g := task.NewGroup(lease.Context(), 0)
	g.Go("renew the part", func(context.Context) error { return lease.Keep() })
	g.Go("load the part", func(ctx context.Context) error {
		defer lease.Abandon()
		held := life.Within(ctx).Noting(lease.Note)
		r := &engine.Right{Fencing: l.fencing, Renew: lease.Renew, Generation: state.Generation, Stamps: stamps, Proved: true, Tables: l.tables(state, lease.Part())}
		var err error
		if r.Former, err = l.fencing.Former(held, state, state.Generation); err == nil {
			err = l.work(held, state, lease, r)
		}
		if err == nil {
			return nil
		}
		// If the release fails, the successor waits until the lease is over.
		if released := lease.Release(ctx); engine.Fatal(err) {
			return err
		} else if released != nil && engine.Fatal(released) {
			return released
		}
		return err
	})
	err := g.Wait()
	switch {
	case engine.Fatal(err): // whatever else has failed beside it
		return l.End(err)
	case err == nil || life.Draining() || engine.IsAny(err, backfill.ErrDrained, checkpoint.ErrLeaseLost, sink.ErrFenced):
		return nil // whoever takes it goes on from what was saved
	}
	// No repeat under this lease mends it: the table is not there, for example. It may be there again.
	l.Events.Retry(l.Source, "load a part", l.Timing.List, err)
	_ = task.Sleep(life.Drain, l.Timing.List)
	return nil
}

// work does what the part's phase asks for, from where the part stands to its end.
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

// imageAgeMargin is left of the age of an image for its write, with all its repeats.
const imageAgeMargin = 6 * time.Hour

// copy copies a segment of the source, or a file of its export.
func (l *Loader) copy(life engine.Lifecycle, state checkpoint.TableState, lease *checkpoint.PartLease, r *engine.Right) (checkpoint.PartProgress, error) {
	part := lease.Part()
	images, err := l.images(life, state, part.Index)
	if err != nil {
		return part.PartProgress, err
	}
	defer func() { _ = images.close() }() // it was only read
	p := backfill.Part{
		Index: part.Index, Total: part.Total,
		Source: images,
		Write: func(ctx context.Context, page backfill.Page, readAt time.Time) error {
			seen, items := readAt, page.Items
			if !images.at.IsZero() {
				readAt, seen = images.at, l.now(ctx)
				if err := youngEnough(checkpoint.Aged(readAt, state.AdoptedAt), seen, l.settings.imageAge-imageAgeMargin); err != nil {
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
			if !images.at.IsZero() {
				for i := range batch.Rows {
					batch.Rows[i].At = checkpoint.Aged(readAt, state.AdoptedAt)
				}
			}
			batch.Read = transform.Reading{At: seen, Mono: task.Mono(ctx)}
			return l.applier.Write(life.Within(ctx), r, &batch, nil, new(engine.PageSlot)) // the parts in hand are bounded
		},
		Save: lease.Commit,
		Retry: func(ctx context.Context, op func(ctx context.Context) error) error {
			return l.Retry(life.Within(ctx), "copy", op)
		},
		Limits: l.limits,
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

// sweep sweeps a range of a target table. Pass 0 only counts.
func (l *Loader) sweep(life engine.Lifecycle, state checkpoint.TableState, lease *checkpoint.PartLease, r *engine.Right) (checkpoint.PartProgress, error) {
	part := lease.Part()
	if part.Index >= len(state.Load.Sweep.Ranges) {
		return checkpoint.PartProgress{}, fmt.Errorf("%w: no range for part %d of the sweep", checkpoint.ErrConflict, part.Index)
	}
	at, from := state.Load.Sweep.Ranges[part.Index], backfill.SweepProgress{}
	err := l.Retry(life, "read how far the sweep is", func(context.Context) error { // a trouble of the lease until somebody mends it
		if part.Position != nil && json.Unmarshal(part.Position, &from) != nil {
			return fmt.Errorf("%w: the position of part %d of the sweep is none", backfill.ErrProgress, part.Index) // without what it holds
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
		return checkpoint.PartProgress{Position: position, Items: p.Sums.Seen, Counts: checkpoint.Counts{
			Seen: p.Sums.Suspects, Put: p.Sums.Put, Removed: p.Sums.Removed, Left: p.Sums.Left, Unexplained: p.Sums.Unexplained,
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
			_, waited, err := l.limits.Take(life.Drain, ctx, 0, units)
			if waited > 0 {
				l.Waited(life.Work, engine.LimitUnits, waited)
			}
			if life.Draining() {
				return nil // the next save ends it
			}
			return err
		},
		Now:    l.now,
		DryRun: state.Load.Sweep.Pass == 0,
	}
	p, err := s.Run(life.Work, from)
	if err != nil {
		return checkpoint.PartProgress{}, err
	}
	return progress(p)
}

// sweeping is what a sweep of the table's generation looks for in a target table. One that former
// mappings alone wrote may be somebody else's by now: rows without a version are his.
func sweeping(m *transform.Mapping, former []sink.Former, table string, state checkpoint.TableState, settings loadSettings) sink.Sweeping {
	s := sink.Sweeping{
		Mapping: m, Former: former, Table: table, Generation: state.Generation, Written: settings.late > 0,
		Owned: (settings.owned || state.MadeByUs) && slices.Contains(m.Tables(), table),
	}
	if at := state.Load.Doubted(); !at.IsZero() && state.Load.Generation == state.Generation {
		s.Doubted = transform.LoadVersion(state.Generation, at)
	}
	return s
}

// hear waits for the source's time, if no answer has shown it yet: a worker may begin with a sweep,
// whose versions and cells are dated by it, and its own clock may be ahead by hours (H64).
func (l *Loader) hear(life engine.Lifecycle) error {
	return l.Retry(life, "ask for the source's time", func(ctx context.Context) error {
		if !l.Ledger.ServiceTime(ctx).IsZero() {
			return nil
		}
		_, err := l.database.Describe(ctx, l.Source)
		return err
	})
}

// now is the service's time, which images are dated by; this worker's if the source's answers carry none.
func (l *Loader) now(ctx context.Context) time.Time {
	if at := l.Ledger.ServiceTime(ctx); !at.IsZero() {
		return at
	}
	return task.Now(ctx)
}

// pace gives this worker its share of the limits: an operator's, else those of the configuration.
func (s *shift) pace(ctx context.Context, state checkpoint.TableState, mine, all int) error {
	limits := state.Limits.Over(s.settings.limits())
	if state.Limits.RowsPerSecond == nil {
		if s.settings.live {
			rows, _ := limits.Rows()
			s.rows.Set(ctx, rows)
		}
		s.limits.UseRows(s.rows)
	} else {
		s.own.Set(ctx, *state.Limits.RowsPerSecond)
		s.limits.UseRows(s.own)
	}
	provisioned := int64(0)
	if limits.Read != nil && limits.Read.Share > 0 {
		if s.provisioned == nil {
			d, err := s.database.Describe(ctx, s.Source)
			if err != nil {
				return err
			}
			s.provisioned = &d.ReadCapacity
		}
		provisioned = *s.provisioned
	}
	units, _ := limits.ReadUnits(provisioned)
	s.limits.SetUnits(ctx, backfill.Share(units, mine, all))
	return nil
}
