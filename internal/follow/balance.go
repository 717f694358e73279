package follow

import (
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// even takes one shard over from a worker that holds at least two more shards than this worker. The
// other worker notices the loss with its next write to the shard's row. Until then, both workers
// may write the same changes to the target, with the same versions. The shard is chosen at random,
// so that busy shards are distributed. If this worker makes fewer passes than usual, it takes over
// one shard for each pass that it skipped. With Once, no shard is taken over, because the new owner
// would have to observe the shard's idle time again.
func (a *Assigner) even(mine *engine.Holdings, held []checkpoint.Available, state *checkpoint.TableState) error {
	counts := map[string]int{}
	for _, h := range held {
		counts[h.Shard.Owner]++
	}
	a.shares.See(a.Source, counts)
	if a.once != nil {
		return nil
	}
	pass := a.Timing.Pass
	for range a.passes() {
		more, err := a.takeOver(mine, held, state, counts, pass)
		if !more || err != nil {
			return err
		}
		a.shares.See(a.Source, counts)
		pass = 0 // later iterations make up for skipped passes
	}
	return nil
}

// takeOver takes one shard over and updates `counts`. It reports whether another shard may be taken
// over.
func (a *Assigner) takeOver(mine *engine.Holdings, held []checkpoint.Available, state *checkpoint.TableState, counts map[string]int, pass time.Duration) (more bool, err error) {
	ctx := mine.Life.Work
	now := task.Mono(ctx)
	busiest := a.shares.Busiest(a.Source, a.Ledger.Worker(), now, a.Ledger.Lease(), pass)
	if busiest == "" {
		return false, nil
	}
	theirs := slices.DeleteFunc(slices.Clone(held), func(h checkpoint.Available) bool {
		return h.Shard.Owner != busiest || mine.Names.Has(h.Shard.ID)
	})
	if len(theirs) == 0 {
		return false, nil
	}
	a.shares.Tried(now)
	chosen := theirs[min(int(task.Rand(ctx)*float64(len(theirs))), len(theirs)-1)]
	// A worker that cannot reach or read the source must not take shards from other workers.
	at := cdc.Position{After: chosen.Shard.Position}
	if _, err := a.open(chosen.Shard.StreamARN).Seek(ctx, chosen.Shard.ID, at); err != nil {
		a.Events.Retry(a.Source, "take over a shard", a.Timing.Pass, err)
		return false, nil
	}
	counts[busiest]--
	counts[a.Ledger.Worker()]++
	return true, a.lease(mine, chosen, state)
}
