package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/job"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Order names the copy of one load.
type Order struct {
	Generation, Number uint32 // of the load
	Parts              int
}

// RunningCopy returns the copy of the table's load that is running; false if none is.
func RunningCopy(state checkpoint.TableState) (Order, bool) {
	if state.Stage() != checkpoint.StageCopying {
		return Order{}, false
	}
	return Order{state.Load.Generation, state.Load.Number, state.Load.Parts}, true
}

// Judge reports whether the copy is complete. It fails with ErrReplaced if the table's record now
// describes another load.
func (o Order) Judge(state checkpoint.TableState) (complete bool, err error) {
	l := state.Load
	if state.Generation != o.Generation || l.Generation != o.Generation || l.Number != o.Number || l.Parts != o.Parts {
		return false, fmt.Errorf("%w: load %d.%d of table %s", ErrReplaced, o.Generation, o.Number, state.Source)
	}
	return !l.DoneAt.IsZero(), nil
}

// Left returns how many parts of the copy are not done, and how many items are copied.
func (o Order) Left(ctx context.Context, ledger *checkpoint.Ledger, source string) (parts int, items int64, err error) {
	state, _, err := ledger.Table(ctx, source)
	if err != nil {
		return 0, 0, err
	}
	complete, err := o.Judge(state)
	if err != nil || complete {
		return 0, state.Load.Items, err
	}
	rows, err := ledger.PartsOf(ctx, state.LoadPart())
	done := checkpoint.PartsDone(rows, o.Parts)
	return o.Parts - done.Done, done.Items, err
}

// ErrReplaced is returned for a copy that cannot continue, because the table has another generation
// or another load.
var ErrReplaced = errors.New("another load or generation has replaced the load")

// Outcome is how the work on one part ended.
type Outcome string

// The outcomes. Only after Done, the part is copied.
const (
	Done     Outcome = "done"
	Held     Outcome = "held"      // another worker held the part for Patience
	TimeOver Outcome = "time over" // the part was released after AtMost
	Paused   Outcome = "paused"    // the load is paused, or the table is halted
	Stopped  Outcome = "stopped"   // the context of the caller ended
)

// Lending bounds the work on one part.
type Lending struct {
	// Patience is how long to wait for a part that another worker holds. It is at least as long as it
	// takes to see that the worker is dead.
	Patience time.Duration
	AtMost   time.Duration // how long to work on a part
	Report   time.Duration // time between two reports of saved items
}

// Lender copies chosen parts of one load, in a process that is not a worker of the table. Such a
// process acquires no shards, and is never coordinator. The Lender uses the loop of the Loader. So
// limits, pauses and leases apply to its parts as to those of workers.
type Lender struct {
	*Loader
	witnesses *engine.Witnesses
	order     Order
	lending   Lending
	life      context.Context
	drain     context.Context // ends when an error ends the Lender

	mu      sync.Mutex
	wishes  map[int]*wish // by index
	running bool          // whether the loop runs
	failed  error         // the error that ended the Lender
}

// wish is a part for which a caller waits. The mutex of the Lender guards its fields.
type wish struct {
	lease   *checkpoint.PartLease // the last lease of the part; nil before the first
	from    int64                 // items of the part when that lease began
	earlier int64                 // items that were saved under earlier leases
	stop    context.CancelCauseFunc
	outcome Outcome // set when the work must end
	err     error
	ended   task.Event
}

// NewLender returns the Lender of a process. When ctx ends, it abandons all parts.
func NewLender(ctx context.Context, o *engine.Options, spec engine.Spec, order Order, lending Lending) *Lender {
	o.Timing, o.Events = o.Timing.OrDefault(o.Ledger.Lease()), o.Events.OrSilent()
	// The lease of a dead worker ends only after this process has seen it unchanged for its duration.
	lending.Patience = max(lending.Patience, o.Ledger.Lease()+2*o.Timing.Pass)
	drain, halt := context.WithCancelCause(ctx)
	l := &Lender{order: order, lending: lending, life: ctx, drain: drain, wishes: map[int]*wish{}}
	s := engine.NewTable(engine.NewWorker(o, halt), spec)
	l.Loader, _ = New(s)
	l.witnesses = s.Witnesses
	l.loop = job.New(s, lent{kind{l.Loader}, l}, job.Options{
		Verb: "load", AtOnce: 1, Workers: func() int { return 1 }, Wake: &s.Wake.Loader, Pick: l.pick,
	})
	return l
}

// Heed obeys cutovers, like every process that may write, until the Lender's context ends. Then it
// ends the record of this process.
func (l *Lender) Heed() error {
	l.Register.Heed(l.life, l.Timing.Pass, l.Timing.Heed)
	return l.Register.Leave(l.life)
}

// ErrTarget is returned if a witness row shows that the target and the ledger do not belong together.
var ErrTarget = errors.New("the target was recreated or restored, or belongs to another ledger")

// Check fails with ErrTarget if the target tables and the ledger do not belong together. It also
// checks the ledger, the mapping and the mode.
func (l *Lender) Check(ctx context.Context) error {
	if _, err := l.Record(ctx); err != nil {
		return err
	}
	for _, at := range l.witnesses.Places() {
		verdict, err := l.Ledger.Look(ctx, l.Source, at)
		if errors.Is(err, checkpoint.ErrConflict) {
			continue // the coordinator has just written the witness
		}
		if err == nil && verdict != checkpoint.Fine {
			err = ErrTarget
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Copy works on a part until the part is done or released. While the work lasts, it calls `saved`
// with the number of items that were saved since the last call. An error means that this load can
// no longer be copied in this process.
func (l *Lender) Copy(ctx context.Context, index int, saved func(items int64)) (Outcome, error) {
	w, err := l.want(index)
	if err != nil || w == nil {
		return Held, err
	}
	start, begun, reported := task.Mono(ctx), false, int64(0)
	for waits := ctx; ; {
		turn, cancel := task.WithTimeout(waits, l.lending.Report)
		over := w.ended.Wait(turn) == nil
		cancel()
		holds, items := l.progress(w)
		if items > reported {
			saved(items - reported)
			reported = items
		}
		if holds && !begun {
			start, begun = task.Mono(ctx), true
		}
		lasts := task.Mono(ctx) - start
		switch {
		case over:
			return l.result(w)
		case l.life.Err() != nil:
			return Stopped, context.Cause(l.life)
		case ctx.Err() != nil:
			waits = l.life // the part must be released before the return
			l.end(index, w, Stopped)
		case begun && lasts >= l.lending.AtMost:
			l.end(index, w, TimeOver)
		case !begun && lasts >= l.lending.Patience:
			l.end(index, w, Held)
		}
	}
}

// want records a wish for a part, and starts the loop if it does not run. It returns nil if another
// caller in this process waits for the part.
func (l *Lender) want(index int) (*wish, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil || l.wishes[index] != nil {
		return nil, l.failed
	}
	w := &wish{ended: task.NewEvent(l.life)}
	l.wishes[index] = w
	if !l.running {
		l.running = true
		task.NewGroup(l.life, 0).Go("parts", func(ctx context.Context) error {
			l.stopped(l.loop.Run(engine.Lifecycle{Drain: l.drain, Work: ctx}, l.idle))
			return nil
		})
	}
	l.loop.Wake.Signal()
	return w, nil
}

// idle ends the loop when no caller waits.
func (l *Lender) idle(checkpoint.TableState) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running = len(l.wishes) > 0
	return !l.running
}

// stopped ends all wishes after the loop has ended because of an error.
func (l *Lender) stopped(err error) {
	if err == nil {
		err = context.Cause(l.drain)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		return // the loop was idle; another may run by now
	}
	l.running, l.failed = false, err
	for index, w := range l.wishes {
		w.err = err
		l.conclude(index, w)
	}
}

// progress returns whether the part was acquired, and how many items were saved for the caller.
func (l *Lender) progress(w *wish) (acquired bool, items int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.lease == nil {
		return false, 0
	}
	return true, w.earlier + w.lease.Part().Items - w.from
}

func (l *Lender) result(w *wish) (Outcome, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return w.outcome, w.err
}

// end ends the work on a part. If the part is held, its work ends after the current page.
func (l *Lender) end(index int, w *wish, outcome Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endWish(index, w, outcome, nil)
}

// endAll ends the work on all parts.
func (l *Lender) endAll(outcome Outcome, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for index, w := range l.wishes {
		l.endWish(index, w, outcome, err)
	}
}

// endWish is end for a caller that holds the mutex.
func (l *Lender) endWish(index int, w *wish, outcome Outcome, err error) {
	if w.outcome == "" && w.err == nil {
		w.outcome, w.err = outcome, err
	}
	if w.stop != nil {
		w.stop(errEnds)
	} else {
		l.conclude(index, w)
	}
}

var errEnds = errors.New("the work on a part must end")

// conclude removes a wish whose part is not held. The caller holds the mutex.
func (l *Lender) conclude(index int, w *wish) {
	if l.wishes[index] == w {
		delete(l.wishes, index)
	}
	w.ended.Set()
}

// pick chooses the free parts for which callers wait. It ends the wishes for parts that are done.
func (l *Lender) pick(rows, free []checkpoint.Part) []checkpoint.Part {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range rows {
		if w := l.wishes[p.Index]; w != nil && p.State == checkpoint.PartDone {
			l.endWish(p.Index, w, Done, nil)
		}
	}
	return slices.DeleteFunc(slices.Clone(free), func(p checkpoint.Part) bool {
		w := l.wishes[p.Index]
		return w == nil || w.outcome != "" || w.stop != nil
	})
}

// lent is the kind of job of a Lender: the copy of its order.
type lent struct {
	kind
	of *Lender
}

// Look also checks what a worker's other loops check. It ends the wishes for parts of a copy that
// does not run.
func (k lent) Look(ctx context.Context) (checkpoint.TableState, checkpoint.Part, error) {
	if _, err := k.Record(ctx); err != nil {
		return checkpoint.TableState{}, checkpoint.Part{}, err
	}
	if err := k.fencing.Read(ctx); err != nil {
		return checkpoint.TableState{}, checkpoint.Part{}, err
	}
	state, of, err := k.kind.Look(ctx)
	if err != nil {
		return state, of, err
	}
	complete, err := k.of.order.Judge(state)
	switch {
	case err != nil:
		k.of.endAll("", err)
	case complete:
		k.of.endAll(Done, nil)
	case of.Total == 0 || state.Halted():
		k.of.endAll(Paused, nil)
	default:
		return state, of, nil
	}
	return state, checkpoint.Part{}, nil
}

func (k lent) Begin(ctx context.Context, state checkpoint.TableState, rows []checkpoint.Part) (job.Phase, error) {
	p, err := k.kind.Begin(ctx, state, rows)
	return lentPhase{p, k.of}, err
}

// lentPhase is the copy of a Lender's order.
type lentPhase struct {
	job.Phase
	of *Lender
}

// Complete ends all wishes, because every part is done.
func (p lentPhase) Complete(ctx context.Context, state checkpoint.TableState, rows []checkpoint.Part) (checkpoint.TableState, error) {
	p.of.endAll(Done, nil)
	return p.Phase.Complete(ctx, state, rows)
}

// Take leases a part, and returns work that ends when the caller ends its wish.
func (p lentPhase) Take(ctx context.Context, state checkpoint.TableState, part checkpoint.Part) (*checkpoint.PartLease, job.Work, error) {
	lease, work, err := p.Phase.Take(ctx, state, part)
	return lease, func(life engine.Lifecycle) error {
		w, drain, stop := p.of.begin(life.Drain, lease)
		defer stop(context.Canceled)
		if w == nil {
			return backfill.ErrDrained // the caller has gone, so the part is released
		}
		life.Drain = drain
		err := work(life)
		if err != nil {
			// The caller returns at once, so the release cannot be left to the loop, which repeats it.
			_ = lease.Release(life.Work) // if it fails, the next worker waits until the lease ends
		}
		p.of.worked(part.Index, w, err)
		return err
	}, err
}

// begin notes the lease of a part for which a caller waits. It returns the context that ends when
// the caller ends its wish.
func (l *Lender) begin(drain context.Context, lease *checkpoint.PartLease) (*wish, context.Context, context.CancelCauseFunc) {
	l.mu.Lock()
	defer l.mu.Unlock()
	drain, stop := context.WithCancelCause(drain)
	part := lease.Part()
	w := l.wishes[part.Index]
	if w == nil {
		return nil, drain, stop
	}
	if w.lease != nil {
		w.earlier += w.lease.Part().Items - w.from
	}
	w.lease, w.from, w.stop = lease, part.Items, stop
	if w.outcome != "" {
		stop(errEnds)
	}
	return w, drain, stop
}

// worked ends the wish for a part that is done, or whose work had to end. Otherwise the loop
// acquires the part again.
func (l *Lender) worked(index int, w *wish, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.stop = nil
	switch {
	case err == nil:
		w.outcome, w.err = Done, nil
	case engine.Fatal(err):
		w.err = err
	case w.outcome == "" && w.err == nil:
		return
	}
	l.conclude(index, w)
}
