package preflight

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/stream"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// admit checks whether a run would be refused because of rows in the target tables. The check comes
// before anything is created. If a pattern matched a refused table, the run continues, because the
// table's coordinator suspends the table.
func (p *Prober) admit(ctx context.Context, missing []Lacking) {
	named := slices.DeleteFunc(slices.Clone(p.Found.Tables), func(t Table) bool { return t.Config.Pattern() != "" })
	limited, cancel := context.WithTimeout(ctx, ProbeTime*time.Duration(len(named)+1))
	defer cancel()
	absent := func(target string) bool {
		return slices.ContainsFunc(missing, func(m Lacking) bool { return m.Lacks.Table && m.Spec.Name == target })
	}
	taken, err := p.Taken(limited, named, absent)
	var held []*engine.RowsError
	if err == nil && !p.AdoptRows {
		held, err = p.Unanswered(limited, named, absent)
	}
	refused := refusals(taken, held)
	if err == nil && len(refused) == 0 {
		return
	}
	p.Ask(ctx, ProbeTime, "rows of the target", func(context.Context) (string, error) {
		if err == nil {
			err = refused.Err()
		}
		return "", err
	})
}

// refusals returns the reasons why a first generation must not start. Rows of another migration are
// always a reason. Other rows are a reason as long as the operator has not consented.
func refusals(taken []Taken, held []*engine.RowsError) (refused diag.List) {
	add := func(err error) {
		var e *diag.Error
		if errors.As(err, &e) {
			refused = append(refused, e)
		}
	}
	for _, t := range taken {
		if !t.Begun {
			add(StrangerError(t.StrangerError))
		}
	}
	for _, rows := range held {
		if !IsTaken(taken, rows.Table) {
			add(Explain("", rows))
		}
	}
	return refused
}

// Unanswered returns the tables with a first generation that needs an operator's consent. The
// ledger does not know these tables yet, and their target tables have rows.
func (p *Prober) Unanswered(ctx context.Context, tables []Table, absent func(target string) bool) ([]*engine.RowsError, error) {
	var held []*engine.RowsError
	holds := stream.Holds(p.Target.Data.HasRow)
	for _, t := range tables {
		for _, target := range t.Mapping.Tables() {
			if absent(target) {
				continue
			}
			unknown, _, err := holds.Unknown(ctx, t.Mapping, target)
			if err != nil {
				return nil, ExplainTarget("cannot read target table "+target, err)
			}
			if unknown {
				held = append(held, &engine.RowsError{Table: t.Config.From, Target: target})
			}
		}
	}
	if len(held) == 0 || absent(p.Cfg.State.Table) {
		return held, nil
	}
	// Read the ledger after the rows: another worker records a table in the ledger before it writes
	// rows. So rows of that worker never look like foreign rows.
	ledger, err := checkpoint.Open(ctx, p.ledgerStore(), p.Cfg.Name, checkpoint.Options{ReadOnly: true, Lease: p.Cfg.State.Lease})
	if errors.Is(err, checkpoint.ErrNoLedger) {
		return held, nil
	}
	if err != nil {
		return nil, ExplainLedger("cannot read the ledger in table "+p.Cfg.State.Table, err)
	}
	states, err := ledger.Tables(ctx)
	if err != nil {
		return nil, ExplainLedger("cannot read the ledger in table "+p.Cfg.State.Table, err)
	}
	targets, err := ledger.Targets(ctx)
	if err != nil {
		return nil, ExplainLedger("cannot read the ledger in table "+p.Cfg.State.Table, err)
	}
	return slices.DeleteFunc(held, func(e *engine.RowsError) bool {
		return slices.ContainsFunc(states, func(s checkpoint.TableState) bool {
			return s.Source == e.Table && (s.Generation > 0 || s.AdoptRows)
		}) || slices.ContainsFunc(targets, func(t checkpoint.Target) bool {
			return t.Table == e.Target && (t.MadeByUs || t.AdoptRows)
		})
	}), nil
}
