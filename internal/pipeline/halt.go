package pipeline

import (
	"context"
	"errors"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A cutover halts a table before it raises the fence: whoever proves his right to write afterwards
// reads that. The parts of a halted table end as in a clean stop, and begin anew if the cutover is
// cancelled. While it stands, this worker reads and writes nothing of the table. An operator's pause
// stops a table in the same way, without a fence.

// serve works on a table whenever neither a cutover halts it nor an operator has paused it, until a
// drain begins or it is cut over for good. First is what is to run first.
func (w *worker) serve(life lifecycle, spec Table, first *table) error {
	t := first
	for !life.draining() && life.work.Err() == nil {
		state, err := t.standing(life)
		switch {
		case err != nil:
			return t.end(err)
		case state.Halt.Done && w.once == nil:
			w.over.Store(true)
			return nil
		case state.Halted() && w.once != nil:
			return t.end(checkpoint.ErrCutOver)
		case state.Paused() && w.once != nil:
			return t.end(checkpoint.ErrPaused)
		case state.Stopped():
			t.events.Ledger(state, nil) // else the worker would seem to be cut off from it
			_ = task.Sleep(life.drain, t.timing.Pass)
			continue
		}
		halted, err := t.runUnlessHalted(life)
		if !halted || err != nil {
			return err
		}
		t = newTable(w, spec)
		w.once.await(t.source, &t.wake.assigner)
	}
	return nil
}

// standing reads the table's record.
func (t *table) standing(life lifecycle) (state checkpoint.TableState, err error) {
	err = t.retry(life, "look whether the table is halted", func(ctx context.Context) (err error) {
		t.events.Tick()
		state, _, err = t.ledger.Table(ctx, t.source)
		return err
	})
	if err != nil && (life.draining() || life.work.Err() != nil) {
		return state, nil
	}
	return state, err
}

// runUnlessHalted runs the table, and tells whether a cutover or an operator has ended that.
func (t *table) runUnlessHalted(life lifecycle) (halted bool, err error) {
	drain, stop := context.WithCancelCause(life.drain)
	defer stop(context.Canceled)
	g := task.NewGroup(life.work, 0)
	watching, watched := context.WithCancel(drain)
	defer watched()
	g.Go("look for a cutover", func(context.Context) error {
		for task.Sleep(watching, t.timing.Pass) == nil {
			if state, _, err := t.ledger.Table(watching, t.source); err == nil && state.Stopped() {
				stop(errHalted)
			}
		}
		return nil
	})
	g.Go("run", func(work context.Context) error {
		defer watched()
		return t.run(lifecycle{drain: drain, work: work, yield: life.yield, note: life.note})
	})
	err = g.Wait()
	return errors.Is(context.Cause(drain), errHalted) && !life.draining(), err
}
