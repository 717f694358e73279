package sim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// database is the source that a worker reads.
type database struct{ *model.Table }

// Get reads an item, strongly consistently.
func (d database) Get(ctx context.Context, _ string, keys attribute.Item) (attribute.Item, bool, error) {
	item, err := d.Table.Get(ctx, keys)
	return item, item.Exists(), err
}

// loads is an operator who manages loads. With on_gap: load, most begin without a command.
type loads struct {
	*simulation
	process *virtual.Process
	looks   int
	away    time.Duration // no commands until then
}

// leave ends all commands, because the ledger that they know is about to be replaced.
func (l *loads) leave(until time.Duration) {
	l.away = until
	if l.process != nil {
		l.process.Kill()
		l.process = nil
	}
}

// look reads the table's record, and acts on it.
func (l *loads) look(does func(ctx context.Context, ledger *checkpoint.Ledger, state checkpoint.TableState) error) {
	if l.World.Elapsed() < l.away {
		return
	}
	if l.process == nil {
		l.process = l.World.NewProcess("operator of loads")
	}
	l.looks++
	p, options := l.process, checkpoint.Options{Worker: fmt.Sprint("operator of loads ", l.looks), Lease: l.Lease, ReadOnly: true}
	p.Go("look", func() {
		ctx, state := p.Context(), checkpoint.TableState{}
		ledger, err := checkpoint.Open(ctx, l.Store(), "default", options)
		if err == nil {
			state, _, err = ledger.Table(ctx, l.Source.Name)
		}
		if err == nil && state.Generation > 0 {
			err = does(ctx, ledger, state)
		}
		if err != nil {
			l.World.Tracef("the operator of loads: %v", err)
		}
	})
}

// mend requests the necessary loads, approves their sweeps, and pauses and resumes them. After the
// faults it removes the limit of the slowest.
func (l *loads) mend(ctx context.Context) {
	rng := stream(l.plan.seed, "mender")
	for !l.plan.unloaded && task.Sleep(ctx, time.Duration((5+30*rng.Float64())*float64(time.Minute))) == nil {
		chance := rng.Float64()
		l.look(func(ctx context.Context, ledger *checkpoint.Ledger, state checkpoint.TableState) (err error) {
			stage, source := state.Stage(), l.Source.Name
			runs := stage == checkpoint.StageCopying || stage == checkpoint.StageSweeping
			switch {
			case state.Load.Paused == checkpoint.PausedByOperator && !l.exports.holding():
				_, err = ledger.ResumeLoad(ctx, source, checkpoint.PausedByOperator)
				l.World.Inject("load resumed")
			case state.Load.Sweep.Waiting && stage == checkpoint.StageSweeping:
				_, err = ledger.ApproveSweep(ctx, source)
				l.World.Inject("sweep approved")
			case l.exports == nil && state.NeedsLoad && stage == checkpoint.StageNone && (!l.plan.again || state.Tries >= checkpoint.MaxTries):
				_, err = ledger.AskLoad(ctx, source, chance < 0.5)
				l.World.Inject("load asked for")
			case l.peaceful && l.copyRate > 0 && state.Limits.RowsPerSecond == nil:
				_, err = ledger.SetLimits(ctx, source, checkpoint.Limits{RowsPerSecond: new(float64)}, false)
				// A call that waits for the former limit does not notice the new one.
				if err == nil && runs {
					_, err = ledger.PauseLoad(ctx, source, checkpoint.PausedByOperator)
				}
			case !l.peaceful && runs && chance < 0.1:
				_, err = ledger.PauseLoad(ctx, source, checkpoint.PausedByOperator)
				l.World.Inject("load paused")
			case !l.peaceful && runs && chance > 0.9:
				err = l.redo(ctx, ledger, state)
			}
			return err
		})
	}
}

// again begins the load again. Without an answer it tries up to three times.
func (l *loads) again(ctx context.Context) {
	for done := false; !done && !l.plan.unloaded && !l.peaceful; {
		l.look(func(ctx context.Context, ledger *checkpoint.Ledger, state checkpoint.TableState) error {
			done = true
			return l.redo(ctx, ledger, state)
		})
		if task.Sleep(ctx, 10*time.Minute) != nil {
			return
		}
	}
}

func (l *loads) redo(ctx context.Context, ledger *checkpoint.Ledger, state checkpoint.TableState) error {
	l.World.Inject("load begun anew")
	if stage := state.Stage(); stage == checkpoint.StageCopying || stage == checkpoint.StageSweeping {
		l.World.Inject("load begun anew while " + string(stage))
	}
	_, err := ledger.Redo(ctx, l.Source.Name, state.Generation, "asked for", state.Generation%2 > 0)
	return err
}

// others are another pipeline's rows in the target, by what identifies their owner: a version with
// the item's name under another source table, or nothing (H101).
var others = map[string]string{"n#n": "Other/S:bg/S:bg", "s#o#n#n": "Other/S:bg/S:bg", "south#a#n#n": "Merged_north/S:bg/S:bg", "south#o#n#n": "none", "z#z": "none"}

// placeOthers writes them to the target tables. Their row keys look like this pipeline's.
func (s *simulation) placeOthers() {
	family, _, _ := strings.Cut(s.families[0], ":")
	for _, table := range s.Mapping.Tables() {
		for key, origin := range inOrder(others) {
			cells := []model.Mutation{{Kind: model.SetCell, Family: family, Qualifier: "value", Value: "another's"}}
			if origin != "none" {
				v := transform.NewVersion(1, 1, cdc.SequenceNumber{}, transform.CountExact)
				cells = append(cells, model.Mutation{Kind: model.SetCell, Family: sink.LiveFamily, Qualifier: sink.VersionColumn, Value: string(v)},
					model.Mutation{Kind: model.SetCell, Family: sink.LiveFamily, Qualifier: sink.OriginColumn, Value: origin})
			}
			if _, err := s.Target.Execute("another's", table, key, nil, cells); err != nil {
				panic(err)
			}
		}
	}
}
