package preflight

import (
	"context"
	"errors"
	"slices"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Taken is a target table that another migration also writes, and that is not declared as shared.
type Taken struct {
	*engine.StrangerError
	// Begun reports whether the ledger already knows the source table. In that case changes are
	// still applied, but the sweep waits.
	Begun bool
}

// Taken returns the target tables that another migration also writes, at most one for each given
// source table. Work that removes rows must not begin in these targets.
func (p *Prober) Taken(ctx context.Context, tables []Table, absent func(target string) bool) ([]Taken, error) {
	if p.Cfg.Target.Shared {
		return nil, nil
	}
	var ledger *checkpoint.Ledger
	var states []checkpoint.TableState
	if !absent(p.Cfg.State.Table) {
		var err error
		ledger, err = checkpoint.Open(ctx, p.ledgerStore(), p.Cfg.Name, checkpoint.Options{ReadOnly: true, Lease: p.Cfg.State.Lease})
		if err == nil {
			states, err = ledger.Tables(ctx)
		}
		if err != nil && !errors.Is(err, checkpoint.ErrNoLedger) {
			return nil, ExplainLedger("cannot read the ledger in table "+p.Cfg.State.Table, err)
		}
	}
	own := func(source string) bool {
		return slices.ContainsFunc(tables, func(t Table) bool { return t.Config.From == source })
	}
	var taken []Taken
	for _, t := range tables {
		for _, target := range t.Mapping.Tables() {
			if absent(target) {
				continue
			}
			at := checkpoint.Witnesses{Target: target, Store: p.Target.WitnessStore(target), Prefix: transform.WitnessPrefix, Source: transform.WitnessSource}
			other, found, err := at.Stranger(ctx, ledger, own)
			if err != nil {
				return nil, ExplainTarget("cannot read target table "+target, err)
			}
			if found {
				begun := slices.ContainsFunc(states, func(s checkpoint.TableState) bool { return s.Source == t.Config.From && s.Generation > 0 })
				taken = append(taken, Taken{&engine.StrangerError{Table: t.Config.From, Other: other}, begun})
				break
			}
		}
	}
	return taken, nil
}

// IsTaken reports whether another migration writes a target of a source table.
func IsTaken(taken []Taken, source string) bool {
	return slices.ContainsFunc(taken, func(t Taken) bool { return t.Table == source })
}
