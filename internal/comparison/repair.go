package comparison

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"

	"github.com/dynamodb-bigtable/replicator/internal/repair"
)

// repair fixes the findings, table by table, and records the outcomes. It stops at the first table
// with an error.
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
		if n := t.toRepair(); o.AtMost > 0 && n > o.AtMost {
			stopped := repair.Stopped(t.config.From, n, o.AtMost, o.DryRun)
			t.repaired = &stopped
			continue
		}
		r, err := repair.Of(ctx, o.Cfg, t.config, o.ends.source, o.ends.repair, "cannot repair rows of table "+t.config.From)
		if err != nil {
			return err
		}
		defer r.Leave(ctx)
		r.DryRun = o.DryRun
		if o.RemoveForeign {
			r.Owned, r.Had = true, nil
		}
		list, others, err := o.repairable(ctx, t, differs, r.Repairer)
		if err != nil {
			return explain(ctx, "cannot repair rows of table "+t.config.From, err)
		}
		d, err := repair.Findings(ctx, r.Repairer, list, log)
		t.repaired = &d
		err = cmp.Or(err, others)
		if err != nil {
			return explain(ctx, "cannot repair rows of table "+t.config.From, err)
		}
	}
	return nil
}

// toRepair returns how many rows of a table a repair may change. Rows that the comparison counted but
// did not record are among them. Foreign rows are not, because no repair changes them.
func (t *table) toRepair() int {
	counts := t.state.Verify.Result.VerifyCounts
	if t.keyed != nil {
		counts = t.keyed.counts
	}
	return int(counts.Missing + counts.Different + counts.Extra)
}

// repairable returns the findings that may be repaired. If another migration writes the target,
// extra rows may belong to that migration. Such rows are left out, and the result `refused` is the
// reason. If the repair may remove rows without proof that this migration wrote them, repairable
// first writes their number to stderr.
func (o *Operator) repairable(ctx context.Context, t *table, list []verify.Finding, r *sink.Repairer) (may []verify.Finding, refused, err error) {
	extra := func(f verify.Finding) bool { return f.Kind == verify.Extra }
	if !slices.ContainsFunc(list, extra) {
		return list, nil, nil
	}
	other, found, err := o.stranger(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	if found {
		refused = preflight.StrangerError(&engine.StrangerError{Table: t.config.From, Other: other})
		return slices.DeleteFunc(slices.Clone(list), extra), refused, nil
	}
	unproved := 0
	for _, f := range list {
		if extra(f) && (f.Version == "" && r.Owned || f.Version != "" && !t.state.HadGeneration(f.Version.Generation()) && r.Had == nil) {
			unproved++
		}
	}
	if unproved > 0 {
		_, _ = fmt.Fprintf(o.Stderr, "%s: removing %s without proof that this migration wrote them\n", t.config.From, terminal.Plural(unproved, "extra row"))
	}
	return list, nil, nil
}

// stranger returns another migration that writes one of the table's target tables, or false if
// there is none. Targets that are declared as shared do not count.
func (o *Operator) stranger(ctx context.Context, t *table) (checkpoint.Stranger, bool, error) {
	if o.ends.witness == nil || o.Cfg.Target.Shared {
		return checkpoint.Stranger{}, false, nil
	}
	own := func(source string) bool {
		return slices.ContainsFunc(o.Cfg.Tables, func(c config.Table) bool { return c.From == source })
	}
	for _, name := range t.mapping.Tables() {
		at := checkpoint.Witnesses{Target: name, Store: o.ends.witness(name), Prefix: transform.WitnessPrefix, Source: transform.WitnessSource}
		if other, found, err := at.Stranger(ctx, o.ledger, own); found || err != nil {
			return other, found, err
		}
	}
	return checkpoint.Stranger{}, false, nil
}
