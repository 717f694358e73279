package loads

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// sayWhole is how a configuration says that its exports are whole.
const sayWhole = "set whole_export: true in backfill"

// OfConfiguration examines the exports that the configuration names.
func OfConfiguration(cfg *config.Config, source source, env config.Lookup) Examiner {
	return Examiner{Cfg: cfg, Source: source, Env: env, Whole: cfg.Backfill.WholeExport, SayWhole: sayWhole}
}

// Named is an export that the configuration names, once it is read and fits its table.
type Named struct {
	checkpoint.Export
	Items, Bytes int64
	Files        int
}

// Read reads the export that the configuration names for a table.
func (x Examiner) Read(ctx context.Context, t config.Table) (Named, backfill.Description, error) {
	e, d, err := x.read(ctx, t, []string{x.Cfg.Export(t)}, false)
	if err != nil {
		return Named{}, d, err
	}
	return Named{e.exports[0], e.items, e.bytes, e.files}, d, nil
}

// Judge reads the export that the configuration names for a table, and proves that its first load
// may copy it. The error is a *checkpoint.NotAdmissible if waiting mends it.
func (x Examiner) Judge(ctx context.Context, t config.Table, state checkpoint.TableState, shards []checkpoint.Shard) (checkpoint.Export, error) {
	e, d, err := x.read(ctx, t, []string{x.Cfg.Export(t)}, false)
	if err != nil {
		return checkpoint.Export{}, err
	}
	var hole *checkpoint.NotAdmissible
	if err := checkpoint.AdmissibleExport(state, shards, e.exports[0].At, d.At, x.Cfg.Late(t)); errors.As(err, &hole) && hole.Yet {
		return checkpoint.Export{}, hole
	}
	return e.exports[0], x.admits(TableInput{Config: t, Found: true, State: state}, shards, d, e)
}

// Refusal is why an export is refused, with what to do; "" if the error is about something else,
// which another attempt may mend.
func Refusal(err error) string {
	var told *diag.Error
	if !errors.As(err, &told) || told.Code != diag.LoadRefused {
		return ""
	}
	var fault *exports.Error
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
