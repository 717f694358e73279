package verify

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/job"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// Verifier processes parts of a table's verify. Every worker has a Verifier. The command that
// begins a verify also has one, so a verify needs no worker. A Verifier finds its work in the
// ledger, which has the plan. When all parts of a phase are done, the first process that notices
// begins the next phase.
type Verifier struct {
	*engine.Common
	mapping  *transform.Mapping
	database engine.Database
	target   verify.Target
	settings verifySettings
	loop     *job.Loop
	rows     *backfill.Throttle // limiter of rows read from the target
	slots    *SumSlots
	tail     tail
	open     func(streamARN string) cdc.Source // if nil, a worker must read the stream
	// failed is called if a part failed with an error that no retry can fix. If it is nil, the part
	// is acquired again.
	failed func(err error)
}

// verifySettings are the configuration's settings of verifies.
type verifySettings struct {
	settle time.Duration
	// patience is the maximum time that a part waits for changes to be applied; 0 means the
	// default.
	patience time.Duration
	owned    bool
	late     time.Duration // maximum delay of the application's own writes
}

const (
	// mostSums is the maximum number of parts of a process that compute checksums concurrently.
	// Each part may need up to 32 MB.
	mostSums = 2
	// mostLooks is the maximum number of other parts of a table that are processed concurrently.
	mostLooks = 4
)

// SumSlots limits the parts that compute checksums, over all tables of a process.
type SumSlots struct{ taken atomic.Int64 }

func (s *SumSlots) take() bool {
	if s.taken.Add(1) <= mostSums {
		return true
	}
	s.taken.Add(-1)
	return false
}

func (s *SumSlots) leave() { s.taken.Add(-1) }

func NewVerifier(s *engine.Table, target verify.Target, workers func() int, slots *SumSlots) *Verifier {
	spec := s.Spec
	v := &Verifier{
		Common: s.Common, mapping: s.Mapping, database: s.Database, target: target,
		settings: verifySettings{settle: spec.Settle, owned: spec.Owned, late: spec.Late},
		rows:     backfill.NewThrottle(0), slots: slots, tail: tail{seed: maphash.MakeSeed()},
	}
	v.loop = job.New(s, kind{v}, job.Options{
		Verb: "verify", AtOnce: max(min(spec.Segments, mostLooks), 1), Workers: workers, Wake: &s.Wake.Verifier,
	})
	return v
}

// Options holds the dependencies of a process that only works on verifies. Only the last four
// fields are optional.
type Options struct {
	Ledger   *checkpoint.Ledger
	Database engine.Database
	Rows     verify.Target
	// Open, if not nil, opens the stream. While no worker reads the stream, the verify reads it to
	// its newest change.
	Open   func(streamARN string) cdc.Source
	Table  engine.Spec
	Events engine.Events
	Tracer engine.Tracer // begins the spans of this process; nil for none
	Timing engine.Timing
	// Patience is how long a part waits for the changes from before its comparison to be applied.
	// After that the part fails. 0 means 15 minutes.
	Patience time.Duration
	// Slots, if not nil, is shared with the verifies of other tables in this process.
	Slots *Slots
	// Over, if not nil, is called after every read of the table's record. It reports whether Run
	// must return. If it is nil, Run returns when no verify is running.
	Over func(state checkpoint.TableState) bool
}

// Slots bounds the memory of the verifies of several tables in one process. The zero value is ready
// for use.
type Slots struct{ sums SumSlots }

func (s *Slots) slots() *SumSlots {
	if s == nil {
		return &SumSlots{}
	}
	return &s.sums
}

// Run processes parts of a table's verify until the verify is over or ctx ends. Workers may process
// other parts at the same time. It fails if a part fails with an error that no retry can fix.
func Run(ctx context.Context, o Options) error {
	halting, halt := context.WithCancelCause(ctx)
	defer halt(context.Canceled)
	v := o.verifier(halt)
	v.failed, v.settings.patience = halt, o.Patience
	if o.Over == nil {
		o.Over = func(state checkpoint.TableState) bool { return !state.Verify.Running() }
	}
	err := v.Run(engine.Until(halting), o.Over)
	if cause := context.Cause(halting); err == nil && cause != nil {
		return cause
	}
	return err
}

// verifier returns the Verifier of a process that only works on verifies of the table.
func (o Options) verifier(halt context.CancelCauseFunc) *Verifier {
	p := engine.NewWorker(&engine.Options{
		Ledger: o.Ledger, Floors: &engine.Floors{}, Database: o.Database, Open: o.Open, Events: o.Events.OrSilent(), Tracer: o.Tracer, Timing: o.Timing.OrDefault(o.Ledger.Lease()),
	}, halt)
	t := engine.NewTable(p, o.Table)
	v := NewVerifier(t, o.Rows, func() int { return 1 }, o.Slots.slots())
	if o.Open != nil {
		v.open = t.Open
	}
	return v
}

// Run acquires parts and processes them until a drain begins. If `over` is not nil, Run also ends
// when `over` returns true.
func (v *Verifier) Run(life engine.Lifecycle, over func(state checkpoint.TableState) bool) error {
	return v.loop.Run(life, over)
}

// work compares the rows of the part, from its last saved position to its end.
func (p phase) work(life engine.Lifecycle, state checkpoint.TableState, lease *checkpoint.PartLease) error {
	part, run := lease.Part(), state.Verify
	w := p.plan.Work(p.comparison(life, state, p.plan.Scope), run.Phase, p.picked)
	w.Drain = life.Drain
	saves := verify.Saves{Kept: verify.Kept{Ledger: p.Ledger, Table: state, Part: part}}
	var from verify.Progress
	err := p.Retry(life, "resume a part of a verify", func(ctx context.Context) (err error) {
		from, err = saves.Resume(ctx, w.Sums)
		return err
	})
	if err != nil {
		return err
	}
	compared := part.Compared.Compared
	save := func(ctx context.Context, at verify.Progress, since verify.News, commit func(context.Context, checkpoint.PartProgress) error) error {
		to, err := saves.Store(ctx, at, since)
		if err == nil {
			err = commit(ctx, to)
		}
		if err != nil {
			return err
		}
		saves.Committed(ctx)
		p.Events.Compared(p.Source, to.Compared.Compared-compared)
		compared = to.Compared.Compared
		return nil
	}
	w.Save = func(ctx context.Context, at verify.Progress, since verify.News) error {
		return save(ctx, at, since, lease.Commit)
	}
	end, found, err := p.plan.Run(life.Work, w, run.Phase, part.Index, from)
	if err != nil {
		return err
	}
	return p.Retry(life.Finishing(), "finish a part of a verify", func(ctx context.Context) error {
		return save(ctx, end, verify.News{Found: found, Instead: true, Sums: w.Sums}, lease.Finish)
	})
}

// comparison returns the table's comparison, with this worker's limits.
func (v *Verifier) comparison(life engine.Lifecycle, state checkpoint.TableState, scope verify.Scope) *verify.Comparison {
	c := &verify.Comparison{
		Mapping: v.mapping, Source: v.database, Target: v.target, Scope: scope, Settle: v.settings.settle, Patience: v.settings.patience, Now: v.now,
		Owned: v.settings.owned || state.MadeByUs,
		Late:  v.settings.late, Generation: state.Generation,
		Applied: v.applied,
		Retry: func(ctx context.Context, op func(ctx context.Context) error) error {
			return v.Retry(life.Within(ctx), "verify", op)
		},
		Pace: func(ctx context.Context, items int, units float64, rows int) error {
			forRows, forUnits, err := v.loop.Limits.Take(life.Drain, ctx, items, units)
			if err == nil {
				var more time.Duration
				more, err = v.rows.Take(life.Drain, ctx, rows)
				forRows += more
			}
			v.Waited(ctx, engine.LimitRows, forRows)
			v.Waited(ctx, engine.LimitUnits, forUnits)
			if err != nil && life.Draining() {
				return verify.ErrDrained
			}
			return err
		},
	}
	if v.open != nil {
		c.Unapplied = func(ctx context.Context, to time.Time) (func(verify.Place) bool, error) {
			return v.unapplied(life.Within(ctx), to)
		}
	}
	return c
}

// applied reports whether all changes up to a time are applied, according to the table's shards.
func (v *Verifier) applied(ctx context.Context, to time.Time) (bool, error) {
	at, err := v.AppliedTo(ctx)
	return !at.Before(to), err
}

// now returns the service's time. If no answer has shown it yet, it returns this process's time.
func (v *Verifier) now(ctx context.Context) time.Time {
	if at := v.Ledger.ServiceTime(ctx); !at.IsZero() {
		return at
	}
	return task.Now(ctx)
}
