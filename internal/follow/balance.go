package follow

import (
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// even takes one shard over from a worker that holds at least two more than this one. The worker
// notices with its next write to the shard's row; what it still writes to the target is what this
// one writes as well, under the same versions. Which shard it is is left to chance, so that busy
// ones spread. Who looks less often takes as many as it would have in the looks between. With Once
// nothing is taken over: a shard that goes from one to the other is empty for no time again.
func (a *Assigner) even(mine *engine.Holdings, held []checkpoint.Available, v engine.View) error {
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
		more, err := a.takeOver(mine, held, v, counts, pass)
		if !more || err != nil {
			return err
		}
		a.shares.See(a.Source, counts)
		pass = 0 // the looks between were left out
	}
	return nil
}

// takeOver takes one shard over, notes it in counts, and reports whether another one may follow.
func (a *Assigner) takeOver(mine *engine.Holdings, held []checkpoint.Available, v engine.View, counts map[string]int, pass time.Duration) (more bool, err error) {
	ctx := mine.Life.Work
	now := task.Mono(ctx)
	busiest := a.shares.Busiest(a.Source, a.Ledger.Worker(), now, a.Ledger.Lease(), pass)
	theirs := slices.DeleteFunc(slices.Clone(held), func(h checkpoint.Available) bool {
		return h.Shard.Owner != busiest || mine.Names.Has(h.Shard.ID)
	})
	if busiest == "" || len(theirs) == 0 {
		return false, nil
	}
	a.shares.Tried(now)
	chosen := theirs[min(int(task.Rand(ctx)*float64(len(theirs))), len(theirs)-1)]
	// Who cannot reach the source, or may not read it, must not take shards from one that can.
	at := cdc.Position{After: chosen.Shard.Position}
	if _, err := a.open(chosen.Shard.StreamARN).Seek(ctx, chosen.Shard.ID, at); err != nil {
		a.Events.Retry(a.Source, "take over a shard", a.Timing.Pass, err)
		return false, nil
	}
	counts[busiest]--
	counts[a.Ledger.Worker()]++
	return true, a.lease(mine, chosen, v)
}
