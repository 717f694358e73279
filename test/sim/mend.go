package sim

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// mending is who asks for a load where one is needed.
type mending uint8

const (
	mendsNever  mending = iota
	mendsItself         // on_gap: load
	mendsAsked          // an operator
)

// database is the source as a worker reads it.
type database struct{ *model.Table }

// Get reads an item, strongly consistently.
func (d database) Get(ctx context.Context, _ string, keys attribute.Item) (attribute.Item, bool, error) {
	item, err := d.Table.Get(ctx, keys)
	return item, item.Exists(), err
}

// mend is an operator who looks at the ledger now and then, asks for the loads that are needed,
// allows their sweeps, pauses them, and has one begun anew in its midst.
func (s *simulation) mend(ctx context.Context) {
	if s.plan.mends == mendsNever || s.plan.unloaded {
		return
	}
	rng := stream(s.plan.seed, "mender")
	for task.Sleep(ctx, time.Duration((5+30*rng.Float64())*float64(time.Minute))) == nil {
		s.mends++
		ledger, err := checkpoint.Open(ctx, s.Store(), "default", checkpoint.Options{Worker: fmt.Sprintf("mender%d", s.mends), Lease: s.Lease, ReadOnly: true})
		if err != nil {
			continue
		}
		state, _, err := ledger.Table(ctx, s.Source.Name)
		if err != nil {
			continue
		}
		chance := rng.Float64()
		switch stage := state.Stage(); {
		case state.Load.Paused == checkpoint.PausedByOperator:
			_, err = ledger.ResumeLoad(ctx, s.Source.Name, checkpoint.PausedByOperator)
			s.World.Inject("load resumed")
		case state.Load.Sweep.Waiting && stage == checkpoint.StageSweeping:
			_, err = ledger.ApproveSweep(ctx, s.Source.Name)
			s.World.Inject("sweep approved")
		case state.NeedsLoad && stage == checkpoint.StageNone && (s.plan.mends == mendsAsked || state.Tries >= checkpoint.MaxTries):
			_, err = ledger.AskLoad(ctx, s.Source.Name, chance < 0.5)
			s.World.Inject("load asked for")
		case !s.peaceful && (stage == checkpoint.StageCopying || stage == checkpoint.StageSweeping) && chance < 0.1:
			_, err = ledger.PauseLoad(ctx, s.Source.Name, checkpoint.PausedByOperator)
			s.World.Inject("load paused")
		case !s.peaceful && (chance > 0.97 || stage == checkpoint.StageSweeping && chance > 0.9):
			_, err = ledger.Redo(ctx, s.Source.Name, state.Generation, "asked for", chance > 0.98)
			s.World.Inject("load begun anew")
		}
		if err != nil {
			s.World.Tracef("the mender: %v", err)
		}
	}
}
