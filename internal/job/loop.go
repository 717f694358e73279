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

// Loop acquires and processes parts of one kind of job of a table. Every worker has one Loop for
// each kind.
type Loop struct {
	Options
	*engine.Common
	Limits   *backfill.Limits // this worker's share of the limits on read units and rows
	kind     Kind
	database engine.Database
	bounds   func() checkpoint.Limits // the configured bounds
}

// Options configure a loop. Left and Pick are optional.
type Options struct {
	Verb    string       // what messages call the work on a part: load or verify
	AtOnce  int          // maximum number of parts that this worker holds
	Workers func() int   // number of workers that may acquire parts
	Wake    *task.Wakeup // makes the loop read the ledger early
	Left    func()       // called when a part was released or done
	// Pick chooses the parts to acquire, in place of an equal share. Its arguments are the rows of the
	// phase and its free parts.
	Pick func(rows, free []checkpoint.Part) []checkpoint.Part
}

// New returns a loop of a table.
func New(s *engine.Table, kind Kind, o Options) *Loop {
	return &Loop{Options: o, Common: s.Common, Limits: backfill.NewLimits(0, 0), kind: kind, database: s.Database, bounds: s.Spec.Bounds()}
}

// Run acquires parts and processes them until a drain begins. If `over` is not nil, Run also ends
// when `over` returns true for the table's record. It returns when this worker holds no more parts.
// It returns only errors that must end the process.
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
				return nil // the ledger has changed since the last read
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

// phaseLoop is the state of a loop, which processes one phase after another.
type phaseLoop struct {
	*Loop
	held  *engine.Holdings
	watch *checkpoint.Watch

	phase Phase // nil if this worker works on no phase
	of    checkpoint.Part
	drain context.Context         // drain of the phase's parts
	over  context.CancelCauseFunc // ends that drain

	source source
}

// end stops the work on the held parts after their current page.
func (s *phaseLoop) end() {
	if s.phase != nil {
		s.over(backfill.ErrDrained)
		s.phase.End()
		s.phase = nil
	}
}

// look reads the ledger. It acquires parts of the running phase, and stops the work on parts of
// other phases.
func (s *phaseLoop) look(ctx context.Context) (checkpoint.TableState, error) {
	state, of, err := s.kind.Look(s.Patient(ctx))
	if err != nil {
		return state, err
	}
	if !of.SamePhase(s.of) { // without parts, this is true too
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
	var chosen []checkpoint.Part
	if s.Pick != nil {
		chosen = s.Pick(rows, free)
	} else {
		chosen = checkpoint.PartsToTake(free, holders, me, s.Workers(), s.AtOnce)
	}
	for _, p := range chosen {
		if err := s.take(state, p); err != nil {
			return state, err
		}
	}
	return state, nil
}

// source holds the last description of the source table. It is kept because the source limits the
// rate of such requests.
type source struct {
	capacity int64         // provisioned read units per second; 0 if billed on demand
	asked    time.Duration // when the capacity was read, on the monotonic clock
	known    bool
}

// pace sets this worker's share of the limits, in proportion to the parts that it holds. An
// operator's limits override the configured limits. The table's capacity is read again from time to
// time, because it may change while a phase runs. If DynamoDB does not answer, the last value
// applies.
func (l *Loop) pace(ctx context.Context, at *source, state checkpoint.TableState, mine, all int) error {
	limits := state.Limits.Over(l.bounds())
	l.Limits.SetRamp(ctx, backfill.Share(l.kind.Pace(ctx, state, limits), mine, all))
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
