package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/standing"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// Verifier works on parts of a table's verify. Every worker has one, and so has the command that
// began it: a verify needs no worker. It looks at the ledger alone, where the plan stands; whoever
// finds that all parts of a phase are done goes on to the next.
type Verifier struct {
	*engine.Common
	mapping  *transform.Mapping
	database engine.Database
	target   verify.Target
	workers  func() int // who may take parts
	settings verifySettings
	limits   *backfill.Limits   // of the source
	rows     *backfill.Throttle // of the target
	wake     *task.Wakeup
	slots    *SumSlots
	failed   func(err error) // a part failed in a way that no repeat mends; nil: it is taken again
}

// verifySettings are what a configuration says of verifies.
type verifySettings struct {
	settle time.Duration
	// patience is how long a part waits until changes are applied; 0 is the default.
	patience time.Duration
	owned    bool
	late     time.Duration // of an application's own writes
	atOnce   int           // parts
	limits   func() checkpoint.Limits
}

// appliedSlack is by how much the source's clock may be ahead of what was heard of it.
const appliedSlack = 2 * time.Second

const (
	// mostSums bounds the parts at once in a process that add up sums, each of up to 32 MB.
	mostSums = 2
	// mostLooks bounds the other parts of a table.
	mostLooks = 4
)

// SumSlots are taken by parts that add up sums, of all tables of a process.
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
	return &Verifier{
		Common: s.Common, mapping: s.Mapping, database: s.Database, target: target, workers: workers,
		settings: verifySettings{settle: spec.Settle, owned: spec.Owned, late: spec.Late, atOnce: max(spec.Segments, 1), limits: spec.Bounds()},
		limits:   backfill.NewLimits(0, 0), rows: backfill.NewThrottle(0), wake: &s.Wake.Verifier, slots: slots,
	}
}

// Options are what a process needs that works on verifies and nothing else. All fields but
// the last four may not be left out.
type Options struct {
	Ledger   *checkpoint.Ledger
	Database engine.Database
	Rows     verify.Target
	Table    engine.Spec
	Events   engine.Events
	Timing   engine.Timing
	// Patience is how long a part waits until changes of before are applied, and fails then; 0 is 15
	// minutes.
	Patience time.Duration
	// Slots, if not nil, are shared with the verifies of other tables in this process.
	Slots *Slots
	// Over, if not nil, is called with every look at the table's record, and says that the work is
	// over. Without it the work is over when no verify runs.
	Over func(state checkpoint.TableState) bool
}

// Slots bound the memory of the verifies of several tables in one process. The zero value is
// ready.
type Slots struct{ sums SumSlots }

func (s *Slots) slots() *SumSlots {
	if s == nil {
		return &SumSlots{}
	}
	return &s.sums
}

// Run works on parts of a table's verify, beside the workers if there are any, until it is over
// or ctx ends. A part that no repeat mends is an error.
func Run(ctx context.Context, o Options) error {
	halting, halt := context.WithCancelCause(ctx)
	defer halt(context.Canceled)
	p := engine.NewWorker(&engine.Options{
		Ledger: o.Ledger, Floors: &engine.Floors{}, Database: o.Database, Events: o.Events.OrSilent(), Timing: o.Timing.OrDefault(o.Ledger.Lease()),
	}, halt)
	v := NewVerifier(engine.NewTable(p, o.Table), o.Rows, func() int { return 1 }, o.Slots.slots())
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

// Run takes parts and works on them until a drain begins, or done, if not nil, says that there is
// nothing left to work on.
func (v *Verifier) Run(life engine.Lifecycle, done func(state checkpoint.TableState) bool) error {
	held := engine.NewHoldings(life, v.wake.Signal)
	s := &verifyShift{Verifier: v, held: held, watch: v.Ledger.NewWatch()}
	defer s.end()
	over := false
	for !over && !life.Draining() && held.Life.Work.Err() == nil {
		err := v.Retry(held.Life, "look for parts of a verify", func(ctx context.Context) error {
			state, err := s.look(ctx)
			var refused *checkpoint.LoadError
			if errors.As(err, &refused) && refused.Yet {
				return nil // the ledger has changed since it was read
			}
			over = err == nil && done != nil && done(state)
			return err
		})
		switch {
		case engine.Fatal(err):
			if err := v.End(err); err != nil {
				held.Tasks.Fail(err)
			}
			over = true
		case err != nil && !life.Draining():
			v.Events.Retry(v.Source, "look for parts of a verify", v.Timing.Pass, err)
		}
		if !over {
			_ = v.wake.Wait(life.Drain, v.Timing.Pass)
		}
	}
	s.end()
	return held.Tasks.Wait()
}

// verifyShift is the work on one phase of one verify.
type verifyShift struct {
	*Verifier
	held  *engine.Holdings
	watch *checkpoint.Watch

	over   context.CancelCauseFunc // ends the parts of the phase between two pages
	drain  context.Context
	number uint32
	phase  int
	plan   verify.Plan
	picked *verify.Picked
}

func (s *verifyShift) end() {
	if s.over != nil {
		s.over(verify.ErrDrained)
		s.over = nil
	}
}

// look takes parts of the phase that the ledger says runs, and lets those of another one be left.
func (s *verifyShift) look(ctx context.Context) (checkpoint.TableState, error) {
	if s.failed != nil { // nobody else in this process looks whether the ledger is still the one that was opened
		if err := s.Ledger.Check(ctx); err != nil {
			return checkpoint.TableState{}, err
		}
	}
	state, _, err := s.Ledger.Table(ctx, s.Source)
	if err != nil {
		return state, err
	}
	run := state.Verify
	runs := run.Running() && run.Paused == "" && state.Suspended.Reason == "" && run.MappingHash == s.MappingHash
	if !runs || run.Phase != s.phase || run.Number != s.number {
		s.end()
	}
	if !runs {
		return state, nil
	}
	if s.over == nil {
		if err := s.begin(ctx, state); err != nil {
			return state, err
		}
	}
	rows, err := s.Ledger.VerifyParts(ctx, state, run.Phase)
	if err != nil {
		return state, err
	}
	if sums := checkpoint.PartsDone(rows, run.Parts); sums.Complete() {
		return s.advance(ctx, state, rows)
	}
	free, others := s.watch.LookVerifyParts(rows, state, task.Mono(ctx))
	holders := map[string]int{}
	for _, p := range others {
		holders[p.Owner]++
	}
	if err := s.pace(ctx, state, holders[s.Ledger.Worker()], len(others)); err != nil {
		return state, err
	}
	most := max(min(s.settings.atOnce, mostLooks), 1)
	for _, p := range checkpoint.PartsToTake(free, holders, s.Ledger.Worker(), s.workers(), most) {
		if err := s.take(state, p); err != nil {
			return state, err
		}
	}
	return state, nil
}

// begin prepares for the phase that runs.
func (s *verifyShift) begin(ctx context.Context, state checkpoint.TableState) error {
	run := state.Verify
	var plan verify.Plan
	if err := json.Unmarshal(run.Plan, &plan); err != nil {
		return err
	}
	var picked *verify.Picked
	if run.Phase > 1 {
		var err error
		if picked, err = verify.LoadPicked(ctx, s.Ledger, state); err != nil {
			return err
		}
	}
	s.drain, s.over = context.WithCancelCause(s.held.Life.Drain)
	s.number, s.phase, s.plan, s.picked = run.Number, run.Phase, plan, picked
	return nil
}

// advance goes on to the next phase, or ends the verify with its result. Several may do so at once,
// to the same effect.
func (s *verifyShift) advance(ctx context.Context, state checkpoint.TableState, rows []checkpoint.Part) (checkpoint.TableState, error) {
	run := state.Verify
	var sums checkpoint.VerifyCounts
	for _, p := range rows {
		sums.Add(p.Compared)
	}
	if s.plan.Summing(run.Phase) {
		picked, err := verify.Combine(ctx, s.Ledger, state, s.plan, rows)
		if err != nil {
			return state, err
		}
		if parts := s.plan.Parts(run.Phase+1, picked.Len()); parts > 0 {
			return s.Ledger.NextVerifyPhase(ctx, state, run.Phase+1, parts, picked.Len(), sums)
		}
	}
	for phase := 1; phase < run.Phase; phase++ {
		earlier, err := s.Ledger.VerifyParts(ctx, state, phase)
		if err != nil {
			return state, err
		}
		rows = append(earlier, rows...)
	}
	if err := verify.Index(ctx, s.Ledger, state, rows); err != nil {
		return state, err
	}
	sums.Add(run.Sums)
	result := verify.Result{Scope: s.plan.Scope, Way: s.plan.Way, Why: s.plan.Why, Began: run.BegunAt, Ended: s.now(ctx), Counts: sums}
	state, err := s.Ledger.EndVerify(ctx, state, result.Stored())
	if err != nil {
		return state, err
	}
	return state, s.Ledger.RemoveVerify(ctx, s.Source)
}

// take leases a part and works on it.
func (s *verifyShift) take(state checkpoint.TableState, part checkpoint.Part) error {
	drain, plan, picked := s.drain, s.plan, s.picked
	free := func() {}
	if plan.Summing(s.phase) {
		if !s.slots.take() {
			return nil // until a part of another table is done
		}
		free = s.slots.leave
	}
	began := false
	err := s.held.Begin(fmt.Sprintf("part %d of verify %d.%d", part.Index, part.Number, s.phase), func(ctx context.Context) (func(life engine.Lifecycle) error, error) {
		lease, err := s.Ledger.TakePart(ctx, part)
		s.Events.Tick()
		began = err == nil
		return func(life engine.Lifecycle) error {
			defer free()
			life.Drain = drain
			return s.hold(life, lease, verifying{state, plan, picked})
		}, err
	})
	if !began {
		free()
	}
	switch {
	case engine.Fatal(err):
		return err
	case err != nil && !engine.IsAny(err, checkpoint.ErrTaken):
		s.Events.Retry(s.Source, "take a part of a verify", s.Timing.Pass, err)
	}
	return nil
}

// verifying is the phase that a part belongs to.
type verifying struct {
	state  checkpoint.TableState
	plan   verify.Plan
	picked *verify.Picked
}

// hold works under a part's lease until the part is done, left, or not ours any more. It returns
// only what ends the process.
func (v *Verifier) hold(life engine.Lifecycle, lease *checkpoint.PartLease, of verifying) error {
	g := task.NewGroup(lease.Context(), 0)
	g.Go("renew the part", func(context.Context) error { return lease.Keep() })
	g.Go("verify the part", func(ctx context.Context) error {
		defer lease.Abandon()
		err := v.work(life.Within(ctx).Noting(lease.Note), lease, of)
		if err == nil {
			return nil
		}
		if released := lease.Release(ctx); !engine.Fatal(err) && released != nil && engine.Fatal(released) {
			return released
		}
		return err
	})
	err := g.Wait()
	switch {
	case engine.Fatal(err):
		return v.End(err)
	case err == nil || life.Draining() || engine.IsAny(err, verify.ErrDrained, checkpoint.ErrLeaseLost):
		return nil
	}
	v.Events.Retry(v.Source, "verify a part", v.Timing.List, err)
	if v.failed != nil {
		v.failed(err)
	}
	_ = task.Sleep(life.Drain, v.Timing.List)
	return nil
}

// work compares what the part is of, from where it stands to its end.
func (v *Verifier) work(life engine.Lifecycle, lease *checkpoint.PartLease, of verifying) error {
	part, run := lease.Part(), of.state.Verify
	w := of.plan.Work(v.comparison(life, of), run.Phase, of.picked)
	w.Drain = life.Drain
	keep := verify.Kept{Ledger: v.Ledger, Table: of.state, Part: part}
	names := part.Kept
	number := 0
	progress := func(ctx context.Context, p verify.Progress, found []verify.Finding) (checkpoint.PartProgress, error) {
		kept := names
		if len(found) > 0 {
			name, err := keep.Findings(ctx, number, found)
			if err != nil {
				return checkpoint.PartProgress{}, err
			}
			kept = append(slices.Clip(names), name)
		}
		return checkpoint.PartProgress{Position: p.Position, Items: p.Items + p.Rows, Compared: p.Counts, Kept: kept}, nil
	}
	w.Save = func(ctx context.Context, p verify.Progress, found []verify.Finding) error {
		to, err := progress(ctx, p, found)
		if err != nil {
			return err
		}
		if err := lease.Commit(ctx, to); err != nil {
			return err
		}
		v.Events.Compared(v.Source, to.Compared.Compared-part.Compared.Compared)
		part.Compared = to.Compared
		names = to.Kept
		number++
		return nil
	}
	from := verify.Progress{Position: part.Position, Counts: part.Compared}
	end, found, err := of.plan.Run(life.Work, w, run.Phase, part.Index, from)
	if err != nil {
		return err
	}
	return v.Retry(life.Finishing(), "finish a part of a verify", func(ctx context.Context) error {
		to, err := progress(ctx, end, found)
		if err == nil && w.Sums != nil {
			var pieces []string
			pieces, err = keep.Sums(ctx, w.Sums)
			to.Kept = append(slices.Clip(to.Kept), pieces...)
		}
		if err == nil {
			err = lease.Finish(ctx, to)
		}
		if err == nil {
			v.Events.Compared(v.Source, to.Compared.Compared-part.Compared.Compared)
		}
		return err
	})
}

// comparison is the table's, with this worker's limits.
func (v *Verifier) comparison(life engine.Lifecycle, of verifying) *verify.Comparison {
	return &verify.Comparison{
		Mapping: v.mapping, Source: v.database, Target: v.target, Scope: of.plan.Scope, Settle: v.settings.settle, Patience: v.settings.patience, Now: v.now,
		Owned:   v.settings.owned || of.state.MadeByUs,
		Late:    v.settings.late,
		Applied: v.applied,
		Retry: func(ctx context.Context, op func(ctx context.Context) error) error {
			return v.Retry(life.Within(ctx), "verify", op)
		},
		Pace: func(ctx context.Context, items int, units float64, rows int) error {
			forRows, forUnits, err := v.limits.Take(life.Drain, ctx, items, units)
			if err == nil {
				var more time.Duration
				more, err = v.rows.Take(ctx, rows)
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
}

// applied says whether what was committed up to a time is applied, by the table's shards.
func (v *Verifier) applied(ctx context.Context, to time.Time) (bool, error) {
	state, _, err := v.Ledger.Table(ctx, v.Source)
	if err != nil || state.StreamEnded {
		return state.StreamEnded, err // nothing more comes
	}
	shards, err := v.Ledger.Shards(ctx, v.Source)
	at := standing.AppliedTo(state, shards)
	return err == nil && !at.Before(to.Add(appliedSlack)), err
}

// now is the service's time; this process's if no answer has shown it yet.
func (v *Verifier) now(ctx context.Context) time.Time {
	if at := v.Ledger.ServiceTime(ctx); !at.IsZero() {
		return at
	}
	return task.Now(ctx)
}

// pace gives this process its share of the limits: an operator's, else those of the configuration.
func (s *verifyShift) pace(ctx context.Context, state checkpoint.TableState, mine, all int) error {
	limits := state.Limits.Over(s.settings.limits())
	rows, _ := limits.Rows()
	s.rows.Set(ctx, rows)
	provisioned := int64(0)
	if limits.Read != nil && limits.Read.Share > 0 {
		d, err := s.database.Describe(ctx, s.Source)
		if err != nil {
			return err
		}
		provisioned = d.ReadCapacity
	}
	units, _ := limits.ReadUnits(provisioned)
	s.limits.SetUnits(ctx, backfill.Share(units, mine, all))
	return nil
}
