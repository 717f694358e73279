package loads

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/exports"
	"github.com/dynamodb-bigtable/replicator/exports/bucket"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// ImageMargin is how much younger than a tombstone's age an image must be to be put: a clock may be
// behind, and a request may be executed long after it was made. The least age of the configuration
// leaves twice the stream's day, so that nothing that is read in time is taken for too old, by a
// clock that is ahead or after hours of throttles.
const ImageMargin = 48 * time.Hour

// ImageAge is the age above which an image is not put any more.
func ImageAge(cfg *config.Config) time.Duration { return cfg.State.TombstoneAge - ImageMargin }

// exported is an export that was read for a request, and fits the table.
type exported struct {
	checkpoint.Export
	items int64
	files int
}

func (e *exported) String() string {
	return fmt.Sprintf("from the export of %s: %s in %s", e.At.UTC().Format(time.RFC3339), terminal.Plural(int(e.items), "item"), terminal.Plural(e.files, "file"))
}

// readExport reads the manifests of the request's export, and refuses one that no worker could load:
// nothing is asked for then.
func (o *Operator) readExport(ctx context.Context, in *Input, r Request) (*exported, error) {
	place, err := bucket.Parse(r.Export)
	if err != nil {
		return nil, preflight.ExportFailed(r.Export, err)
	}
	address := place.String()
	source, err := preflight.ConnectSource(ctx, o.Cfg)
	if err == nil {
		err = source.CheckEndpoints(o.Env, o.Allowed)
	}
	if err != nil {
		return nil, err
	}
	e, err := preflight.OpenExport(ctx, source, o.Env, address)
	if err != nil {
		return nil, preflight.ExportFailed(address, err)
	}
	t := in.Tables[0]
	d, err := source.Tables.Describe(ctx, t.Config.From)
	if err != nil {
		return nil, preflight.ExplainSource("cannot describe table "+t.Config.From, t.Config.From, err)
	}
	if _, err := exports.Chain([]*exports.Export{e}, exports.Wanted{TableARN: d.ARN, TableID: d.ID}); err != nil {
		return nil, preflight.ExportFailed(address, err)
	}
	if err := preflight.WholeExport(ctx, source, address, e.ARN, r.Whole); err != nil {
		return nil, err
	}
	shards, err := in.ledger.Shards(ctx, t.Config.From)
	if err != nil {
		return nil, explain(ctx, "cannot read the ledger in table "+in.Cfg.State.Table, err)
	}
	ask := &diag.Error{Code: diag.LoadRefused, What: "cannot load the export " + address,
		Fix: "ask for an export of now: aws dynamodb export-table-to-point-in-time --table-arn " + d.ARN + " --s3-bucket BUCKET, and name that"}
	var hole *checkpoint.NotAdmissible
	if err := checkpoint.AdmissibleExport(t.State, shards, e.At, d.At, o.Cfg.Late(t.Config)); errors.As(err, &hole) && !hole.Yet {
		ask.Cause = hole.Reason
		return nil, ask
	}
	if most := ImageAge(o.Cfg) / 2; d.At.Sub(e.At) > most {
		ask.Cause = fmt.Sprintf("it is of %s, and with this state.tombstone_age it may be %s old at the most", e.At.UTC().Format(time.RFC3339), most)
		return nil, ask
	}
	return &exported{checkpoint.Export{Address: address, ARN: e.ARN, At: e.At}, e.Items, len(e.Files)}, nil
}
