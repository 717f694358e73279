package follow

import (
	"context"
	"errors"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Recheck compares the rows of a shard's changes again while a cutover needs that. The type
// verify.Recheck implements it, and describes the methods.
type Recheck interface {
	Turn(number uint32, at cdc.SequenceNumber, since time.Time)
	Resume(state checkpoint.Rechecked, at cdc.SequenceNumber) (complete func())
	Take(b *transform.Batch) (asserted func(ctx context.Context, to cdc.SequenceNumber))
	Again(ctx context.Context, b *transform.Batch)
	Number() uint32
	State() checkpoint.Rechecked
	Lose(why string)
	News() bool
	Notify(f func())
	Finish(life engine.Lifecycle)
	Run(life engine.Lifecycle) error
	End()
}

// rechecking runs the recheck of one shard that this worker reads. If it is nil, its methods do
// nothing.
type rechecking struct {
	*follower
	Recheck
	group *task.Group // group of the shard's tasks
	life  engine.Lifecycle
	asked uint32 // the recheck number that was last passed to Turn
	runs  bool
}

// startRecheck continues the recheck of the worker that held the shard earlier, if there was one.
func (f *follower) startRecheck(g *task.Group, life engine.Lifecycle, lease *checkpoint.Lease, state *checkpoint.TableState) *rechecking {
	if f.rechecks == nil || !f.Mode.Writes() {
		return nil
	}
	r := &rechecking{follower: f, Recheck: f.rechecks(), group: g, life: life}
	shard := lease.Shard()
	if n := state.Recheck.Number(f.Ledger.ServiceTime(life.Work)); n == 0 || shard.Rechecked.Verify != n {
		return r
	}
	r.asked = shard.Rechecked.Verify
	complete := r.Resume(shard.Rechecked, shard.Position)
	if shard.Rechecked.To.Compare(shard.Position) >= 0 {
		complete()
	} else {
		g.Go("recheck again "+shard.ID, func(ctx context.Context) error {
			return r.again(life.Within(ctx), shard, *state, complete)
		})
	}
	r.run()
	return r
}

// again rechecks the changes that the former worker had applied but not rechecked. It reads them
// from the stream again.
func (r *rechecking) again(life engine.Lifecycle, shard checkpoint.Shard, state checkpoint.TableState, complete func()) error {
	from := shard.Progress()
	from.Position = cdc.Position{After: shard.Rechecked.To}
	err := r.stretch(life, r.open(shard.StreamARN), shard, state, from, shard.Position, func(b *transform.Batch, _ cdc.SequenceNumber) error {
		r.Again(life.Work, b)
		return nil
	})
	switch {
	case err == nil:
		complete()
	case cdc.Is(err, cdc.Trimmed), cdc.Is(err, cdc.NotFound):
		r.Lose("changes that were not rechecked are no longer in the stream")
	case life.Draining() || errors.Is(err, engine.ErrYield):
	default:
		return err
	}
	return nil
}

// turn begins or ends a recheck when the table's record requires it. All changes up to position
// `at` must be applied.
func (r *rechecking) turn(ctx context.Context, at cdc.Position) {
	if r == nil {
		return
	}
	n := r.number.Get()
	if n == r.asked {
		return
	}
	var since time.Time
	if !at.AtHorizon() {
		if since = r.Ledger.ServiceTime(ctx); since.IsZero() {
			return // the time at which the recheck begins is not known yet
		}
	}
	r.asked = n
	r.Turn(n, at.After, since)
	r.run()
}

// run starts the task that compares rows until this worker stops reading the shard.
func (r *rechecking) run() {
	if r.runs {
		return
	}
	r.runs = true
	r.group.Go("recheck", func(ctx context.Context) error { return r.Recheck.Run(r.life.Within(ctx)) })
}

// take calls Recheck.Take, or does nothing if r is nil.
func (r *rechecking) take(b *transform.Batch) (asserted func(ctx context.Context, to cdc.SequenceNumber)) {
	if r == nil {
		return func(context.Context, cdc.SequenceNumber) {}
	}
	return r.Take(b)
}

// state returns the state of the recheck, which is committed with the progress.
func (r *rechecking) state() checkpoint.Rechecked {
	if r == nil {
		return checkpoint.Rechecked{}
	}
	return r.State()
}

// news reports whether the state has changed enough for a commit.
func (r *rechecking) news() bool { return r != nil && r.News() }

// finish waits until the last rows are rechecked, after the shard was read to its end.
func (r *rechecking) finish(life engine.Lifecycle) {
	if r != nil && r.Number() > 0 {
		r.Finish(life)
	}
}

// end ends the recheck when this worker stops its work on the shard.
func (r *rechecking) end() {
	if r != nil {
		r.End()
	}
}
