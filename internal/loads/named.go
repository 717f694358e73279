package loads

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/source"
)

// sayWhole is the instruction with which an operator confirms in the configuration that exports are
// complete.
const sayWhole = "set whole_export: true in backfill"

// OfConfiguration returns an Examiner for the exports that the configuration names.
func OfConfiguration(cfg *config.Config, from sourceEnd, env config.Lookup) Examiner {
	return Examiner{Cfg: cfg, Source: from, Env: env, Whole: cfg.Backfill.WholeExport, SayWhole: sayWhole}
}

// Named is an export that the configuration names. It was read and checked against its table.
type Named struct {
	checkpoint.Export
	source.Size
}

// Read reads the export that the configuration names for a table.
func (x Examiner) Read(ctx context.Context, t config.Table) (Named, backfill.Description, error) {
	e, d, err := x.read(ctx, t, []string{x.Cfg.LoadsFrom(t)}, false)
	if err != nil {
		return Named{}, d, err
	}
	return Named{e.records[0], e.size}, d, nil
}

// Judge reads the export that the configuration names for a table, and proves that the table's
// first load may copy it. If the load may become possible later without a change, the error is a
// *checkpoint.NotAdmissible.
func (x Examiner) Judge(ctx context.Context, t config.Table, state checkpoint.TableState, shards []checkpoint.Shard) (checkpoint.Export, error) {
	e, d, err := x.read(ctx, t, []string{x.Cfg.LoadsFrom(t)}, false)
	if err != nil {
		return checkpoint.Export{}, err
	}
	var hole *checkpoint.NotAdmissible
	if err := checkpoint.AdmissibleExport(state, shards, e.records[0].At, d.At, x.Cfg.Late(t)); errors.As(err, &hole) && hole.Yet {
		return checkpoint.Export{}, hole
	}
	return e.records[0], x.admits(TableInput{Config: t, Found: true, State: state}, shards, d, e)
}

// Refusal returns why an export is refused, and the fix. It returns "" for other errors, because a
// retry may succeed.
func Refusal(err error) string {
	var told *diag.Error
	if !errors.As(err, &told) || told.Code != diag.LoadRefused {
		return ""
	}
	var fault *source.Fault
	var unknown *backfill.ExportRefusal
	if told.Err != nil && !errors.As(told.Err, &fault) && !errors.As(told.Err, &unknown) && !errors.Is(told.Err, fs.ErrPermission) &&
		!cdc.Is(told.Err, cdc.Denied) && !cdc.Is(told.Err, cdc.NotFound) {
		return ""
	}
	why := told.Cause
	if why == "" && told.Err != nil {
		why = told.Err.Error()
	}
	return strings.Join(strings.Fields(why+"; "+told.Fix), " ")
}
