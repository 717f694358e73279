package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// discovery finds the tables that match the configured patterns, for the pipeline.
type discovery struct {
	worker *Worker
	ledger *checkpoint.Ledger
	rows   *backfill.Throttle
}

// discoverEvery is the shortest discovery interval of all patterns.
func discoverEvery(cfg *config.Config) time.Duration {
	every := time.Duration(0)
	for i := range cfg.Tables {
		if d := cfg.Tables[i].DiscoverEvery; d > 0 && (every == 0 || d < every) {
			every = d
		}
	}
	return every
}

// find searches for tables that match patterns and are not replicated yet. If some tables cannot be
// described, it returns an error together with the other tables. It refuses a table if the mapping
// is not valid for the table.
func (d *discovery) find(ctx context.Context, followed func(source string) bool) (engine.Discovery, error) {
	var out engine.Discovery
	w := d.worker
	listed, err := w.source.Tables.List(ctx)
	if err != nil {
		return out, err
	}
	states, err := d.ledger.Tables(ctx)
	if err != nil {
		return out, err
	}
	var failed []error
	for _, t := range w.Config.Expand(listed) {
		if t.Pattern() == "" || followed(t.From) {
			continue
		}
		description, err := w.source.Tables.Describe(ctx, t.From)
		switch {
		case cdc.Is(err, cdc.NotFound):
			continue // the table was dropped a moment ago
		case cdc.Is(err, cdc.Denied), cdc.Is(err, cdc.Malformed):
			out.Refused = append(out.Refused, d.refuse(t, err))
			continue
		case err != nil && ctx.Err() != nil:
			return out, err // no time is left for the other tables
		case err != nil:
			failed = append(failed, fmt.Errorf("table %s: %w", t.From, err))
			continue
		case description.Status == statusCreating || description.Status == statusDeleting:
			continue // the table's stream cannot be read yet, or no longer
		}
		m, err := preflight.MapTable(t, description.PrimaryKey)
		if err != nil {
			out.Refused = append(out.Refused, d.refuse(t, err))
			continue
		}
		found := preflight.Table{Config: t, Description: description, Mapping: m}
		w.know(found)
		w.warnExpiry(found)
		joins := w.table(found, d.rows)
		joins.Young = bornAfter(description.CreatedAt, states)
		out.Tables = append(out.Tables, joins)
	}
	out.Refused = append(out.Refused, d.gone(states, listed, followed)...)
	return out, fewOf(failed)
}

// findOne searches for one table that matches a pattern, for a process that applies a topic.
func (d *discovery) findOne(ctx context.Context, source string) (engine.Spec, bool, error) {
	if t, ok := d.worker.Config.Table(source); !ok || t.Pattern() == "" {
		return engine.Spec{}, false, nil
	}
	found, err := d.find(ctx, func(name string) bool { return name != source })
	for _, t := range found.Tables {
		if t.Mapping.Source == source {
			return t, true, nil
		}
	}
	return engine.Spec{}, false, err
}

// fewOf joins the first three of many similar errors. If the service fails for all tables, more
// errors would not help.
func fewOf(errs []error) error {
	const few = 3
	if more := len(errs) - few; more > 0 {
		errs = append(errs[:few:few], fmt.Errorf("and %s more", terminal.Plural(more, "table")))
	}
	return errors.Join(errs...)
}

// bornAfter reports whether a table was created after the migration had begun to follow other
// tables from their current end. All items of such a table are newer than the start. So it is
// replicated from the beginning of its stream, even if it is found late.
func bornAfter(created time.Time, states []checkpoint.TableState) bool {
	return slices.ContainsFunc(states, func(s checkpoint.TableState) bool { return !s.Owed().IsZero() && created.After(s.Owed()) })
}

// The states of a table in which it cannot be read. Source:
// https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TableDescription.html
const (
	statusCreating = "CREATING"
	statusDeleting = "DELETING"
)

// refuse logs all reasons why a table cannot be replicated, and returns a reason in one line for
// the ledger.
func (d *discovery) refuse(t config.Table, err error) engine.Refusal {
	d.worker.Log.Warn("skipped table of a pattern", admin.KeyTable, t.From, admin.KeyError, err.Error())
	reason := "DescribeTable failed; see the worker's log"
	var found diag.List
	switch {
	case errors.As(err, &found) && len(found) > 0:
		reason = "its key does not fit the mapping: " + found[0].What
	case cdc.Is(err, cdc.Denied):
		reason = "DynamoDB denies DescribeTable"
	}
	return engine.Refusal{Table: t.From, Reason: reason}
}

// gone returns tables that matched a pattern and are in the ledger, but no longer in the source. It
// leaves out tables that are still replicated.
func (d *discovery) gone(states []checkpoint.TableState, listed []string, followed func(source string) bool) []engine.Refusal {
	var out []engine.Refusal
	for _, s := range states {
		if t, ok := d.worker.Config.Table(s.Source); ok && t.Pattern() != "" && !slices.Contains(listed, s.Source) && !followed(s.Source) {
			out = append(out, engine.Refusal{Table: s.Source, Reason: engine.GoneReason})
		}
	}
	return out
}

// know stores the mapping of a table that matched a pattern. The mapping is needed even after the
// table is dropped, because parked items may still heal.
func (w *Worker) know(t preflight.Table) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.joined == nil {
		w.joined = map[string]preflight.Table{}
	}
	w.joined[t.Config.From] = t
}

// mappings returns the mappings of all replicated tables, by source table.
func (w *Worker) mappings() map[string]*transform.Mapping {
	out := map[string]*transform.Mapping{}
	for _, t := range w.found.Tables {
		out[t.Config.From] = t.Mapping
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for source, t := range w.joined {
		out[source] = t.Mapping
	}
	return out
}
