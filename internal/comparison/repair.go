package comparison

import (
	"context"
	"log/slog"
	"slices"

	"github.com/dynamodb-bigtable/replicator/internal/repair"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// repair mends what was found, table by table, and notes what became of it. It stops at the first
// table where an error stays.
func (o *Operator) repair(ctx context.Context) error {
	if !o.Repair {
		return nil
	}
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	for i := range o.tables {
		t := &o.tables[i]
		differs := slices.DeleteFunc(slices.Clone(t.list), func(f verify.Finding) bool { return f.Kind == verify.InFlight })
		if t.mapping == nil || len(differs) == 0 {
			continue
		}
		r, err := repair.Of(ctx, o.Cfg, t.config, o.ends.source, o.ends.repair, "cannot repair rows of table "+t.config.From)
		if err != nil {
			return err
		}
		r.DryRun = o.DryRun
		d, err := repair.Findings(ctx, r, differs, log)
		t.mended = &d
		if err != nil {
			return explain(ctx, "cannot repair rows of table "+t.config.From, err)
		}
	}
	return nil
}
