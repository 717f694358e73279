package loads

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// Input is the data of the ledger from which a document is made.
type Input struct {
	Cfg    *config.Config
	Tables []TableInput
	ledger *checkpoint.Ledger // nil before the migration has begun
	// left is the error of further commands, if the application has left the source. It names the
	// time of the switch.
	left error
}

// TableInput is the ledger's data about a table's load.
type TableInput struct {
	Config config.Table
	Found  bool
	State  checkpoint.TableState
	Parts  []checkpoint.Part // parts of the current phase
	// notFast explains why the settings or a target table do not allow a fast load; "" if they do.
	notFast string
}

// tablesAtOnce is the number of tables that are read concurrently.
const tablesAtOnce = 32

// read reads the loads of tables. The argument `ledger` must be nil if the migration has not begun.
func read(ctx context.Context, cfg *config.Config, ledger *checkpoint.Ledger, tables []preflight.Table) (*Input, error) {
	ctx, cancel := preflight.Reading(ctx)
	defer cancel()
	in := &Input{Cfg: cfg, ledger: ledger, Tables: make([]TableInput, len(tables))}
	for i, t := range tables {
		in.Tables[i].Config = t.Config
		in.Tables[i].State.Source = t.Config.From
	}
	if err := in.refresh(ctx); err != nil {
		return nil, preflight.ReadingFailed(ctx, "cannot read the ledger in table "+cfg.State.Table, err)
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
			if t.Parts, err = ReadParts(ctx, in.ledger, t.State); err != nil || t.State.RefusesFast() != "" {
				return err
			}
			t.notFast, err = in.refusesFast(ctx, t.Config)
			return err
		})
	}
	return g.Wait()
}

// refusesFast returns why the settings of a table, a target table or a worker do not allow a fast
// load; "" if they do.
func (in *Input) refusesFast(ctx context.Context, t config.Table) (string, error) {
	if why := in.Cfg.RefusesFast(t); why != "" {
		return why, nil
	}
	for _, target := range t.Targets() {
		record, _, err := in.ledger.Target(ctx, target.Table)
		if err != nil {
			return "", err
		}
		if record.Withheld != "" {
			return "table " + target.Table + " has no fence: " + record.Withheld, nil
		}
	}
	return "", nil
}

// ReadParts reads the parts of the current phase of a table's load.
func ReadParts(ctx context.Context, ledger *checkpoint.Ledger, state checkpoint.TableState) ([]checkpoint.Part, error) {
	phase, total := state.RunningPhase()
	if total == 0 {
		return nil, nil
	}
	return ledger.Parts(ctx, state, phase)
}
