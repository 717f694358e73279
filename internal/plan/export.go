package plan

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/loads"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// manifestTime is the time limit for reading an export's manifests. Manifests may name hundreds of
// thousands of files.
const manifestTime = 2 * time.Minute

// export reads the export that the configuration names for a table. If a run would refuse the
// export, plan only warns, because the run still starts. Only its load waits.
func (in *Input) export(ctx context.Context, out *sourceTable) (string, error) {
	x := loads.OfConfiguration(in.Cfg, in.Source, in.env)
	e, d, err := x.Read(ctx, out.found.Config)
	if loads.Refusal(err) != "" {
		_ = errors.As(err, &out.refused)
		return "", preflight.Untold("a run would refuse it; see the warnings")
	}
	if err != nil {
		return "", err
	}
	out.Export = &Export{Address: e.Address, At: e.At, Items: e.Items, Files: e.Parts}
	if d.At.Sub(e.At) > cdc.Retention {
		out.refuse(d, "it is dated "+e.At.Format(time.RFC3339)+", but the stream keeps changes for only 24 hours; earlier changes would be missing")
	}
	return fmt.Sprintf("as of %s: %s in %s", e.At.Format(time.RFC3339), terminal.Plural(int(e.Items), "item"), terminal.Plural(e.Parts, "file")), nil
}

func (out *sourceTable) refuse(d backfill.Description, cause string) {
	out.refused = loads.Unfit(out.Export.Address, d, cause)
}

// judgeExport checks an export against the ledger, for a table that the ledger knows. The export
// must not end before the positions from which the stream resumes.
func (in *Input) judgeExport(out *sourceTable, state checkpoint.TableState, shards []checkpoint.Shard) {
	out.copied = state.Base > 0 || state.Load.Generation > 0
	for _, s := range standing.Open(state, shards) {
		out.changes += s.Rate
	}
	if out.Export == nil || out.copied || state.Generation == 0 {
		return
	}
	out.refused = nil
	var hole *checkpoint.NotAdmissible
	d := out.found.Description
	if err := checkpoint.AdmissibleExport(state, shards, out.Export.At, d.At, in.Cfg.Late(out.found.Config)); errors.As(err, &hole) && !hole.Yet {
		out.refuse(d, hole.Reason)
	}
}
