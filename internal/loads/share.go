package loads

import (
	"context"
	"io"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
)

// warnOfShares warns on stderr about requested limits that would have no effect. If DynamoDB does
// not answer, the limits are set without a warning.
func (o *Operator) warnOfShares(ctx context.Context, source preflight.Describer, r Request, decided []Decided) error {
	if r.Limits.Read == nil || r.Limits.Read.Share == 0 {
		return nil
	}
	ctx, cancel := preflight.Reading(ctx)
	defer cancel()
	found := idleShares(ctx, source, config.Capacity(percent(r.Limits.Read.Share)), decided)
	if len(found) == 0 {
		return nil
	}
	return o.Console.Show(o.Stderr, func(w io.Writer) error { return found.Render(w) })
}

// idleShares returns a warning for each table without provisioned capacity. A limit that is a share
// has no effect on such a table.
func idleShares(ctx context.Context, tables preflight.Describer, limit config.Capacity, decided []Decided) diag.List {
	var found diag.List
	for _, d := range decided {
		if !d.acts() {
			continue
		}
		description, err := tables.Describe(ctx, d.Source)
		if err != nil {
			continue
		}
		if e := preflight.ExplainShare("--max-read-capacity", limit, d.Source, description); e != nil {
			found = append(found, e)
		}
	}
	return found
}
