package job

import (
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Loop takes parts of one kind of job of a table and works on them. Every worker has one for each
// kind.
type Loop struct {
	Options
	*engine.Common
	Limits   *backfill.Limits // of this worker: its share of the read units, and rows
	kind     Kind
	database engine.Database
	bounds   func() checkpoint.Limits // of the configuration
}

// Options say how a loop works. All fields but Left may not be left out.
type Options struct {
	Verb    string       // what is done with a part, for people: load, verify
	AtOnce  int          // the most parts of this worker
	Workers func() int   // how many may take parts
	Wake    *task.Wakeup // lets the loop look at the ledger before its time
	Left    func()       // called when a part was left or done
}

// New makes a loop of a table.
func New(s *engine.Table, kind Kind, o Options) *Loop {
	return &Loop{Options: o, Common: s.Common, Limits: backfill.NewLimits(0, 0), kind: kind, database: s.Database, bounds: s.Spec.Bounds()}
}

// Run takes parts and works on them until a drain begins, or over, if not nil, says of the table's
// record that there is nothing left to work on. It returns when no part is in hand any more, with
// what ends the process.
func (l *Loop) Run(life engine.Lifecycle, over func(state checkpoint.TableState) bool) error {
	held := engine.NewHoldings(life, func() {
		l.Wake.Signal()
		if l.Left != nil {
			l.Left()
		}
	})
	s := &phaseLoop{Loop: l, held: held, watch: l.Ledger.NewWatch()}
	step := "look for parts to " + l.Verb
	for done := false; !done && !life.Draining() && held.Life.Work.Err() == nil; {
		err := l.Retry(held.Life, step, func(ctx context.Context) error {
			state, err := s.look(ctx)
			var refused *checkpoint.LoadError
			if errors.As(err, &refused) && refused.Yet {
				return nil // the ledger has changed since it was read
			}
			done = err == nil && over != nil && over(state)
			return err
		})
		switch {
		case engine.Fatal(err):
			if err := l.End(err); err != nil {
				held.Tasks.Fail(err)
			}
			done = true
		case err != nil && !life.Draining():
			l.Events.Retry(l.Source, step, l.Timing.Pass, err)
		}
		if !done {
			_ = l.Wake.Wait(life.Drain, l.Timing.Pass)
		}
	}
	s.end()
	return held.Tasks.Wait()
}

// phaseLoop is the work of a loop on one phase after the other.
type phaseLoop struct {
	*Loop
	held  *engine.Holdings
	watch *checkpoint.Watch

	phase Phase // nil: this worker works on none
	of    checkpoint.Part
	drain context.Context         // of the parts of the phase
	over  context.CancelCauseFunc // ends it

	source source
}

// end lets the parts in hand be left between two pages.
func (s *phaseLoop) end() {
	if s.phase != nil {
		s.over(backfill.ErrDrained)
		s.phase.End()
		s.phase = nil
	}
}

// look takes parts of the phase that the ledger says runs, and lets those of another one be left.
func (s *phaseLoop) look(ctx context.Context) (checkpoint.TableState, error) {
	state, of, err := s.kind.Look(ctx)
	if err != nil {
		return state, err
	}
	if !of.SamePhase(s.of) { // nor is one of no parts
		s.end()
	}
	if of.Total == 0 {
		return state, nil
	}
	rows, err := s.Ledger.PartsOf(ctx, of)
	if err != nil {
		return state, err
	}
	if s.phase == nil {
		phase, err := s.kind.Begin(ctx, state, rows)
		if err != nil {
			return state, err
		}
		s.phase, s.of, s.source = phase, of, source{}
		s.drain, s.over = context.WithCancelCause(s.held.Life.Drain)
	}
	if checkpoint.PartsDone(rows, of.Total).Complete() {
		return s.phase.Complete(ctx, state, rows)
	}
	free, others := s.watch.LookParts(rows, of, state, task.Mono(ctx))
	holders := map[string]int{}
	for _, p := range others {
		holders[p.Owner]++
	}
	me := s.Ledger.Worker()
	if err := s.pace(ctx, &s.source, state, holders[me], len(others)); err != nil {
		return state, err
	}
	for _, p := range checkpoint.PartsToTake(free, holders, me, s.Workers(), s.AtOnce) {
		if err := s.take(state, p); err != nil {
			return state, err
		}
	}
	return state, nil
}

// source is what a loop remembers of the source, whose answers are rationed.
type source struct {
	capacity int64         // read units a second that are provisioned; 0: on demand
	asked    time.Duration // when, on the monotonic clock
	known    bool
}

// pace gives this worker its share of the limits, which is that of the parts it holds: an
// operator's, else those of the configuration. The capacity is asked for again from time to time,
// because it may be scaled while a phase runs; a source that does not answer then is as it was.
func (l *Loop) pace(ctx context.Context, at *source, state checkpoint.TableState, mine, all int) error {
	limits := state.Limits.Over(l.bounds())
	l.kind.Pace(ctx, state, limits)
	shared := limits.Read != nil && limits.Read.Share > 0
	if now := task.Mono(ctx); shared && (!at.known || now-at.asked >= l.Timing.List) {
		d, err := l.database.Describe(ctx, l.Source)
		if err != nil && (!at.known || engine.Fatal(err)) {
			return err
		}
		if err == nil {
			at.capacity = d.ReadCapacity
		}
		at.asked, at.known = now, true
	}
	units, _ := limits.ReadUnits(at.capacity)
	l.Limits.SetUnits(ctx, backfill.Share(units, mine, all))
	return nil
}
