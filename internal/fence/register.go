package fence

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Register is the gate for all writes of this process to target tables. It also keeps the process's
// record in the ledger (checkpoint.Writer). Every proof of a right to write goes through it. A
// process has exactly one Register.
type Register struct {
	ledger  *checkpoint.Ledger
	gate    *sink.Gate
	writing *task.Limit // allows one write of the record at a time

	mu      sync.Mutex
	entered map[string]checkpoint.Writing // content of the record, by target table
	goodbye checkpoint.Writer             // the record's goodbyes
	closed  map[string][]string           // target tables for which a cutover has closed the gate, by its row

	// The task that holds `writing` is the only user of the following fields.
	refreshed time.Duration // when the record was last refreshed; 0 if never
	left      bool          // whether the record has ended
}

// NewRegister returns the register of a process. The process must have opened the ledger under a
// unique name.
func NewRegister(ledger *checkpoint.Ledger) *Register {
	r := &Register{ledger: ledger, writing: task.NewLimit(1), entered: map[string]checkpoint.Writing{}, closed: map[string][]string{}}
	r.gate = sink.NewGate(r.enter)
	return r
}

// Prove returns the stamps for writes to target tables. The function `right` must prove that
// the caller may still write (sink.Prove). Prove refuses a target table that a cutover has halted.
func (r *Register) Prove(ctx context.Context, tables []string, right func(ctx context.Context) error) (sink.Stamps, error) {
	return sink.Prove(ctx, r.gate, tables, Marks(r.ledger), func(ctx context.Context) error {
		// The record is written before this read. So a cutover that halts the targets and does not
		// find the record stops this process here.
		for _, table := range tables {
			t, _, err := r.ledger.Target(ctx, table)
			if err == nil && t.Halted() {
				err = checkpoint.ErrHalted
			}
			if err != nil {
				return err
			}
		}
		return right(ctx)
	})
}

// enter records durably that this process may write with the given marks. A mark names a target's
// fence number.
func (r *Register) enter(ctx context.Context, marks map[string]sink.Mark) error {
	missing := r.missing(marks)
	if len(missing) == 0 {
		return nil
	}
	if err := r.writing.Acquire(ctx, 1); err != nil {
		return err
	}
	defer r.writing.Release(1)
	if missing = r.missing(marks); len(missing) == 0 {
		return nil
	}
	w, err := r.ledger.EnterWriter(ctx, missing)
	if err == nil {
		r.keep(w)
	}
	return err
}

// keep stores the content of the record.
func (r *Register) keep(w checkpoint.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entered, r.goodbye = maps.Clone(w.Targets), w
}

// missing returns the entries for these marks that the record does not have yet.
func (r *Register) missing(marks map[string]sink.Mark) map[string]checkpoint.Writing {
	r.mu.Lock()
	defer r.mu.Unlock()
	missing := map[string]checkpoint.Writing{}
	for table, mark := range marks {
		w := checkpoint.Writing{Number: mark.Number}
		if mark.Withheld {
			w = checkpoint.Writing{Unfenced: true}
		}
		if !r.entered[table].Covers(w) {
			missing[table] = w
		}
	}
	return missing
}

// refreshEvery is the interval at which a process refreshes its record. If a record is older than a
// day, its process counts as ended (checkpoint.JoinWriters).
const refreshEvery = time.Hour

// Heed obeys the cutovers of all groups until ctx ends, and refreshes the record. While a cutover
// needs quick answers, it reads the cutovers' records every `active`. Otherwise it reads them every
// `idle`.
func (r *Register) Heed(ctx context.Context, idle, active time.Duration) {
	for rest := idle; ctx.Err() == nil; _ = task.Sleep(ctx, rest) {
		all, err := r.ledger.Cutovers(ctx)
		if err != nil {
			continue // without a goodbye, a cutover does not hand over
		}
		rest = idle
		for _, c := range all {
			if c.Step.AsksWriters() {
				rest = active
			}
			_ = r.obey(ctx, c) // if it fails, the next pass retries it
		}
		_ = r.refresh(ctx) // if it fails, the next pass retries it
	}
}

// refresh writes this process's record again, and joins the records of ended processes. It does so
// once when the process has a new record, and then every hour.
func (r *Register) refresh(ctx context.Context) error {
	if err := r.writing.Acquire(ctx, 1); err != nil {
		return err
	}
	defer r.writing.Release(1)
	r.mu.Lock()
	entered := maps.Clone(r.entered)
	r.mu.Unlock()
	now := task.Mono(ctx)
	if len(entered) == 0 || r.left || r.refreshed > 0 && now-r.refreshed < refreshEvery {
		return nil
	}
	if err := r.ledger.RefreshWriter(ctx, entered); err != nil {
		return err
	}
	if err := r.ledger.JoinWriters(ctx); err != nil {
		return err
	}
	r.refreshed = now
	return nil
}

// obey closes the gate if a cutover hands the targets over to the application. It says goodbye when
// no request is in flight. If a request has an unknown outcome, it records that at once. If the
// attempt was cancelled, it opens the gate again.
func (r *Register) obey(ctx context.Context, c checkpoint.Cutover) error {
	handsOver := c.Step.HandsOver() && !c.Rehearse
	r.mu.Lock()
	entered, goodbye, closed := r.entered, r.goodbye, r.closed[c.Row]
	delete(r.closed, c.Row)
	if handsOver {
		r.closed[c.Row] = c.Targets
	}
	r.mu.Unlock()
	if handsOver {
		r.gate.Close(c.Targets...)
	} else {
		r.gate.Open(closed...)
	}
	doubts, quiet, news := map[string]checkpoint.Writing{}, true, false
	for _, table := range c.Targets {
		w, known := entered[table]
		if !known {
			continue
		}
		t := r.gate.Traffic(table)
		quiet = quiet && !t.InFlight
		doubts[table] = checkpoint.Writing{Doubt: t.Doubt, UnfencedDoubt: t.Unfenced}
		news = news || !w.Covers(doubts[table])
	}
	attempt := uint32(0)
	if handsOver && quiet && !goodbye.SaidGoodbye(c) {
		attempt = c.Attempt
	}
	if len(doubts) == 0 || attempt == 0 && !(news && c.Step.AsksWriters()) {
		return nil
	}
	if err := r.writing.Acquire(ctx, 1); err != nil {
		return err
	}
	defer r.writing.Release(1)
	w, err := r.ledger.NoteWriter(ctx, c.Row, attempt, doubts)
	if err == nil {
		r.keep(w)
	}
	return err
}

// leaveTime is the time limit for the last write of a process to its record.
const leaveTime = 10 * time.Second

// Leave ends the record, even if ctx has ended. The process must not write afterwards. If Leave
// fails, the record stays until its numbers are dropped.
func (r *Register) Leave(ctx context.Context) error {
	r.mu.Lock()
	entered := maps.Clone(r.entered)
	r.mu.Unlock()
	if len(entered) == 0 {
		return nil
	}
	doubts := map[string]checkpoint.Writing{}
	for table, w := range entered {
		r.gate.Close(table)
		doubts[table] = r.doubt(table, w)
	}
	limited, cancel := task.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	if err := r.writing.Acquire(limited, 1); err != nil {
		return err
	}
	defer r.writing.Release(1)
	r.left = true
	return r.ledger.LeaveWriter(limited, doubts)
}

// doubt returns the requests to a target table with an unknown outcome. Requests in flight count as
// unknown.
func (r *Register) doubt(table string, w checkpoint.Writing) checkpoint.Writing {
	t := r.gate.Traffic(table)
	d := checkpoint.Writing{Doubt: t.Doubt, UnfencedDoubt: t.Unfenced}
	if t.InFlight {
		d.Doubt, d.UnfencedDoubt = max(d.Doubt, w.Number), d.UnfencedDoubt || w.Unfenced
	}
	return d
}
