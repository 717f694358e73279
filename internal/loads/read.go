package loads

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Input is the ledger as it was read: what a document is judged from.
type Input struct {
	Cfg    *config.Config
	Tables []TableInput
	ledger *checkpoint.Ledger // nil before the migration has begun
}

// TableInput is what the ledger holds of a table's load.
type TableInput struct {
	Config config.Table
	Found  bool
	State  checkpoint.TableState
	Parts  []checkpoint.Part // of the phase that runs
}

// tablesAtOnce is how many tables are read at the same time.
const tablesAtOnce = 32

// read reads the loads of a table, or of all.
func read(ctx context.Context, cfg *config.Config, store checkpoint.Store, table string) (*Input, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, preflight.ReadTime, preflight.ErrReadTime)
	defer cancel()
	what := "cannot read the ledger in table " + cfg.State.Table
	ledger, err := preflight.OpenLedger(ctx, store, cfg, "operator", "")
	if err != nil {
		return nil, preflight.ReadingFailed(ctx, what, err)
	}
	in := &Input{Cfg: cfg, ledger: ledger}
	tables, err := preflight.LedgerTables(ctx, cfg, ledger, table)
	if err == nil {
		in.Tables = make([]TableInput, len(tables))
		for i, t := range tables {
			in.Tables[i].Config = t
			in.Tables[i].State.Source = t.From
		}
		err = in.refresh(ctx)
	}
	if err != nil {
		return nil, preflight.ReadingFailed(ctx, what, err)
	}
	return in, nil
}

// refresh reads every table's record and parts again.
func (in *Input) refresh(ctx context.Context) error {
	if in.ledger == nil {
		return nil
	}
	g := task.NewGroup(ctx, tablesAtOnce)
	for i := range in.Tables {
		t := &in.Tables[i]
		g.Go("read "+t.Config.From, func(ctx context.Context) (err error) {
			if t.State, t.Found, err = in.ledger.Table(ctx, t.Config.From); err != nil {
				return err
			}
			t.Parts, err = ReadParts(ctx, in.ledger, t.State)
			return err
		})
	}
	return g.Wait()
}

// ReadParts reads the parts of the phase that a table's load runs.
func ReadParts(ctx context.Context, ledger *checkpoint.Ledger, state checkpoint.TableState) ([]checkpoint.Part, error) {
	phase, total := state.RunningPhase()
	if total == 0 {
		return nil, nil
	}
	return ledger.Parts(ctx, state, phase)
}
