package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// tablesOf is the configuration's tables, with those that the source has in the place of patterns.
func tablesOf(ctx context.Context, cfg *config.Config, tables *backfill.Tables) ([]config.Table, error) {
	if !cfg.HasPatterns() {
		return cfg.Tables, nil
	}
	names, err := tables.List(ctx)
	if err != nil {
		return nil, explainSource("cannot list the tables of the source", "", err)
	}
	return cfg.Expand(names), nil
}

// find asks for the tables that patterns stand for, and says how many each has.
func (p *prober) find(ctx context.Context) ([]config.Table, bool) {
	if !p.cfg.HasPatterns() {
		return p.cfg.Tables, true
	}
	var tables []config.Table
	ok := p.ask(ctx, findTime, "tables of patterns", func(ctx context.Context) (text string, err error) {
		if tables, err = tablesOf(ctx, p.cfg, p.source.tables); err != nil {
			return "", err
		}
		for i := range p.cfg.Tables {
			entry := &p.cfg.Tables[i]
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
			text += fmt.Sprintf("%s: %s", entry.Group(), plural(n, "table"))
		}
		return text, nil
	})
	return tables, ok
}

// findTime bounds the listing of all tables: a request for every hundred of at most a few thousand.
const findTime = 30 * time.Second

// discovery finds the tables of patterns for the pipeline.
type discovery struct {
	worker *worker
	ledger *checkpoint.Ledger
	rows   *backfill.Throttle
}

// discoverEvery is how often tables are looked for: as often as the most impatient pattern says.
func discoverEvery(cfg *config.Config) time.Duration {
	every := time.Duration(0)
	for i := range cfg.Tables {
		if d := cfg.Tables[i].DiscoverEvery; d > 0 && (every == 0 || d < every) {
			every = d
		}
	}
	return every
}

// find looks at the tables of patterns that are not followed yet. One that cannot be described for now is an error, with which the others are
// given all the same; one that does not fit the mapping is refused.
func (d *discovery) find(ctx context.Context, followed func(source string) bool) (pipeline.Discovery, error) {
	var out pipeline.Discovery
	w := d.worker
	listed, err := w.source.tables.List(ctx)
	if err != nil {
		return out, err
	}
	states, err := d.ledger.Tables(ctx)
	if err != nil {
		return out, err
	}
	var failed []error
	for _, t := range w.cfg.Expand(listed) {
		if t.Pattern() == "" || followed(t.From) {
			continue
		}
		description, err := w.source.tables.Describe(ctx, t.From)
		switch {
		case cdc.Is(err, cdc.NotFound):
			continue // dropped a moment ago
		case cdc.Is(err, cdc.Denied), cdc.Is(err, cdc.Malformed):
			out.Refused = append(out.Refused, d.refuse(t, err))
			continue
		case err != nil && ctx.Err() != nil:
			return out, err // there is no time for the others either
		case err != nil:
			failed = append(failed, fmt.Errorf("table %s: %w", t.From, err))
			continue
		case description.Status == statusCreating || description.Status == statusDeleting:
			continue // there is nothing to read yet, or any more
		}
		m, err := mapTable(t, description.PrimaryKey)
		if err != nil {
			out.Refused = append(out.Refused, d.refuse(t, err))
			continue
		}
		found := probedTable{config: t, description: description, mapping: m}
		w.know(found)
		w.warnExpiry(found)
		joins := w.replicated(t, m, d.rows)
		joins.Young = bornAfter(description.CreatedAt, states)
		out.Tables = append(out.Tables, joins)
	}
	out.Refused = append(out.Refused, d.gone(states, listed, followed)...)
	return out, fewOf(failed)
}

// fewOf joins errors that are much alike. While the service fails for all tables there are thousands, of which three tell as much.
func fewOf(errs []error) error {
	const few = 3
	if more := len(errs) - few; more > 0 {
		errs = append(errs[:few:few], fmt.Errorf("and %s more", plural(more, "table")))
	}
	return errors.Join(errs...)
}

// bornAfter tells whether a table was created after the migration had begun to follow others from now on. All that it holds is newer than the
// start then, and nothing of its stream may be dropped, however late it was found.
func bornAfter(created time.Time, states []checkpoint.TableState) bool {
	return slices.ContainsFunc(states, func(s checkpoint.TableState) bool { return !s.Owed().IsZero() && created.After(s.Owed()) })
}

// States of a table in which it cannot be read.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TableDescription.html
const (
	statusCreating = "CREATING"
	statusDeleting = "DELETING"
)

// refuse tells why a table cannot be replicated: in full in the log, and in a line for the ledger.
func (d *discovery) refuse(t config.Table, err error) pipeline.Refusal {
	d.worker.log.Warn("a table of a pattern cannot be replicated", admin.KeyTable, t.From, admin.KeyError, err.Error())
	reason := "it cannot be described; the worker's log says why"
	var found diag.List
	switch {
	case errors.As(err, &found) && len(found) > 0:
		reason = "its key does not fit the mapping: " + found[0].What
	case cdc.Is(err, cdc.Denied):
		reason = "DynamoDB denies DescribeTable"
	}
	return pipeline.Refusal{Table: t.From, Reason: reason}
}

// gone are the tables of patterns that the ledger knows and the source does not have any more, but for those that are followed.
func (d *discovery) gone(states []checkpoint.TableState, listed []string, followed func(source string) bool) []pipeline.Refusal {
	var out []pipeline.Refusal
	for _, s := range states {
		if t, ok := d.worker.cfg.Table(s.Source); ok && t.Pattern() != "" && !slices.Contains(listed, s.Source) && !followed(s.Source) {
			out = append(out, pipeline.Refusal{Table: s.Source, Reason: pipeline.GoneReason})
		}
	}
	return out
}

// know remembers how a table of a pattern is mapped; parked items of one that is gone may still heal.
func (w *worker) know(t probedTable) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.joined == nil {
		w.joined = map[string]probedTable{}
	}
	w.joined[t.config.From] = t
}

// mappings are those of all tables that are replicated, by source table.
func (w *worker) mappings() map[string]*transform.Mapping {
	out := map[string]*transform.Mapping{}
	for _, t := range w.found.tables {
		out[t.config.From] = t.mapping
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for source, t := range w.joined {
		out[source] = t.mapping
	}
	return out
}

// replicated hands what the configuration says of a table to what obeys it.
func (w *worker) replicated(t config.Table, m *transform.Mapping, rows *backfill.Throttle) pipeline.Table {
	return pipeline.Table{
		Mapping: m, MappingHash: w.cfg.Hash(t), AcceptMapping: w.flags.acceptMapping, FromNow: t.Start == config.StartNow,
		Copy: !w.flags.noBackfill, Segments: w.cfg.Backfill.Segments,
		// The limit is one for the process; tables that are named share it evenly, but how many a pattern will have is not known.
		RowsPerSecond: float64(w.cfg.Backfill.MaxRowsPerSecond) / float64(len(w.cfg.Tables)), Rows: rows, Joined: t.Pattern() != "",
	}
}
