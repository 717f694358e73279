package preflight

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// tablesOf returns the configuration's tables, with each pattern replaced by the matching tables of
// the source.
func tablesOf(ctx context.Context, cfg *config.Config, tables *backfill.Tables) ([]config.Table, error) {
	if !cfg.HasPatterns() {
		return cfg.Tables, nil
	}
	names, err := tables.List(ctx)
	if err != nil {
		return nil, ExplainSource("cannot list the tables of the source", "", err)
	}
	return cfg.Expand(names), nil
}

// LedgerTables returns the named table, or all tables of the configuration. For a pattern it
// returns the tables that the ledger knows. The argument `ledger` is nil before the migration has
// begun.
func LedgerTables(ctx context.Context, cfg *config.Config, ledger *checkpoint.Ledger, table string) ([]config.Table, error) {
	if t, ok := cfg.Table(table); ok && table != "" {
		return []config.Table{t}, nil
	}
	var sources []string
	if ledger != nil && cfg.HasPatterns() {
		states, err := ledger.Tables(ctx)
		if err != nil {
			return nil, err
		}
		for _, s := range states {
			sources = append(sources, s.Source)
		}
	}
	return cfg.Expand(sources), nil
}

// Find lists the tables that match patterns, and shows how many match each pattern.
func (p *Prober) Find(ctx context.Context) ([]config.Table, bool) {
	if !p.Cfg.HasPatterns() {
		return p.Cfg.Tables, true
	}
	var tables []config.Table
	ok := p.Ask(ctx, findTime, "tables of patterns", func(ctx context.Context) (text string, err error) {
		if tables, err = tablesOf(ctx, p.Cfg, p.Source.Tables); err != nil {
			return "", err
		}
		for i := range p.Cfg.Tables {
			entry := &p.Cfg.Tables[i]
			if !entry.IsPattern() {
				continue
			}
			n := 0
			for j := range tables {
				if tables[j].Pattern() == entry.From {
					n++
				}
			}
			if text != "" {
				text += "; "
			}
			text += fmt.Sprintf("%s: %s", entry.Group(), terminal.Plural(n, "table"))
		}
		return text, nil
	})
	return tables, ok
}

// findTime is the time limit for listing all tables. The listing takes one request per hundred
// tables.
const findTime = 30 * time.Second
