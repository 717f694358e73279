package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A cutover halts a table first, and raises the fence afterwards. So a writer that proves its right
// after the raise finds the table halted. The loops of a halted table end as in a clean stop. If
// the cutover is cancelled, they start again. Meanwhile this worker neither reads nor writes the
// table. An operator's pause stops a table in the same way, but without a fence.

// serve replicates a table while it is neither halted by a cutover nor paused by an operator. It
// ends when a drain begins. It begins with the loops in `first`, and makes new loops after each
// halt.
func (w *worker) serve(life engine.Lifecycle, spec engine.Spec, first *table) error {
	t := first
	for !life.Draining() && life.Work.Err() == nil {
		state, err := t.standing(life)
		switch {
		case err != nil:
			return t.End(err)
		case state.Halted() && w.Completion != nil:
			return t.End(checkpoint.ErrCutOver)
		case state.Paused() && w.Completion != nil:
			return t.End(checkpoint.ErrPaused)
		case state.Stopped():
			// This event is needed, because otherwise the worker would seem to have lost the
			// ledger.
			t.Events.Ledger(state, nil)
			_ = task.Sleep(life.Drain, t.Timing.Pass)
			continue
		}
		halted, err := t.runUnlessHalted(life)
		if !halted || err != nil {
			return err
		}
		t = newTable(w, spec)
		w.Completion.Await(t.Source, &t.Wake.Assigner)
	}
	return nil
}

// standing reads the table's record.
func (t *table) standing(life engine.Lifecycle) (state checkpoint.TableState, err error) {
	err = t.Retry(life, "check whether the table is halted", func(ctx context.Context) (err error) {
		t.Events.Tick()
		state, _, err = t.Ledger.Table(ctx, t.Source)
		return err
	})
	if err != nil && (life.Draining() || life.Work.Err() != nil) {
		return state, nil
	}
	return state, err
}

// runUnlessHalted runs the loops of the table. It reports whether a halt by a cutover, or a pause
// by an operator, ended them.
func (t *table) runUnlessHalted(life engine.Lifecycle) (halted bool, err error) {
	drain, stop := context.WithCancelCause(life.Drain)
	defer stop(context.Canceled)
	g := task.NewGroup(life.Work, 0)
	watching, watched := context.WithCancel(drain)
	defer watched()
	g.Go("check for a cutover", func(context.Context) error {
		for task.Sleep(watching, t.untilCheck()) == nil {
			ctx := watching
			if !t.Tracker.Near() {
				ctx = t.Patient(ctx)
			}
			state, _, err := t.Ledger.Table(ctx, t.Source)
			if err != nil {
				continue
			}
			if state.Stopped() {
				stop(engine.ErrHalted)
			}
			t.Tracker.SetNear(state.FreezeNear())
			t.Tracker.SetQuiet(state.Halt.Quiet)
			t.Recheck.Set(state.Recheck.Number(t.Ledger.ServiceTime(watching)))
		}
		return nil
	})
	g.Go("run", func(work context.Context) error {
		defer watched()
		return t.run(engine.Lifecycle{Drain: drain, Work: work, Yield: life.Yield, Note: life.Note})
	})
	err = g.Wait()
	return errors.Is(context.Cause(drain), engine.ErrHalted) && !life.Draining(), err
}

// untilCheck returns the wait before the next check for a cutover. If the application also writes
// the target, its promise to be quiet makes pending changes due, and the freeze waits for them.
func (t *table) untilCheck() time.Duration {
	if t.Spec.Late > 0 && t.Tracker.Near() {
		return min(t.Timing.Pass, t.Timing.Soon)
	}
	return t.Timing.Pass
}
