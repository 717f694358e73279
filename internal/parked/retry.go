package parked

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"text/tabwriter"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/pipeline"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Source is where a retry reads items.
type Source interface {
	preflight.Describer
	// Get reads an item, strongly consistently; false if there is none.
	Get(ctx context.Context, table string, keys attribute.Item) (attribute.Item, bool, error)
}

// Target is where a retry writes rows, and where it reads the ledger.
type Target interface {
	sink.Reader
	sink.Table
	Ledger(stateTable string) checkpoint.Store
	// Cluster is where requests are led to now; "" if that is not known.
	Cluster(ctx context.Context) (string, error)
}

// Decision is an operator's decision about parked records. Decide opens the target and finds the
// records.
type Decision struct {
	*terminal.Console
	Cfg     *config.Config
	Log     *slog.Logger
	Connect func(ctx context.Context) (Source, error) // to the source, for a retry
	Target  Target
	Lot     *sink.Parking
	Chosen  []Record
}

// The outcomes of a retry.
const (
	outcomeStored  = "stored"       // the item is in the target as it is now
	outcomeRemoved = "removed"      // the source no longer holds it, and neither does the target
	outcomeParked  = "still_parked" // it cannot be stored
	outcomeChanged = "changing"     // it changes faster than it is repaired; its changes bring it
)

// retried is what became of one item.
type retried struct {
	Table   string  `json:"table"`
	KeyHash string  `json:"key_hash"`
	Outcome string  `json:"outcome"`
	Records int     `json:"records"` // that the item had parked
	Written int     `json:"rows_written"`
	Reason  *string `json:"reason"` // why it is still parked
}

func (r *retried) resolved() bool { return r.Outcome == outcomeStored || r.Outcome == outcomeRemoved }

// Retry repairs every chosen item and resolves its records. It stops at the first error of either
// end, and tells what was done until then.
func (d *Decision) Retry(ctx context.Context) error {
	results := []retried{}
	items := ByItem(d.Chosen)
	failed := func() error {
		if len(items) == 0 {
			return nil
		}
		src, err := d.Connect(ctx)
		if err != nil {
			return err
		}
		repairers := map[string]*sink.Repairer{}
		for _, records := range items {
			source := records[0].Source
			r := repairers[source]
			if r == nil {
				if r, err = d.repairer(ctx, src, source); err != nil {
					return err
				}
				repairers[source] = r
			}
			result, err := d.retryItem(ctx, r, records)
			if err != nil {
				return err
			}
			results = append(results, result)
		}
		return nil
	}()
	if err := errors.Join(d.writeRetried(results, len(items)), failed); err != nil {
		return err
	}
	return retryVerdict(results)
}

// retryItem repairs one item. The records are those that were parked before the item is read, so
// that a change which is parked meanwhile stays parked.
func (d *Decision) retryItem(ctx context.Context, r *sink.Repairer, records []Record) (retried, error) {
	limited, cancel := preflight.Reading(ctx)
	defer cancel()
	_, hash, _ := records[0].Ref.Parts()
	result := retried{Table: records[0].Source, KeyHash: hash, Records: len(records)}
	parked := make([]transform.Parked, len(records))
	for i, record := range records {
		parked[i] = record.Parked
	}
	done, err := r.RepairParked(limited, parked...)
	var bad *sink.BadItem
	switch {
	case errors.As(err, &bad):
		result.Outcome, result.Reason = outcomeParked, &bad.Reason
		return result, nil
	case errors.Is(err, sink.ErrOvertaken), errors.Is(err, sink.ErrRepairs):
		reason := err.Error()
		result.Outcome, result.Reason = outcomeChanged, &reason
		return result, nil
	case err != nil:
		return result, repairFailed(limited, records[0].Source, err)
	}
	result.Outcome, result.Written = outcomeStored, done.Written
	if !done.Present {
		result.Outcome = outcomeRemoved
	}
	for _, record := range records {
		if err := d.Lot.Remove(limited, record.Ref); err != nil {
			return result, Explain(limited, d.Cfg, err)
		}
		d.Log.Info("a parked item is resolved by a retry", admin.KeyTable, record.Source, admin.KeyParked, string(record.Ref))
	}
	return result, nil
}

// repairFailed explains what stopped a repair. Its outcome may be unknown; the same command may be
// given again.
func repairFailed(ctx context.Context, table string, err error) error {
	what := "cannot retry an item of table " + table
	var unready *checkpoint.NotAdmissible
	switch {
	case errors.As(err, &unready):
		return &diag.Error{Code: diag.RetryNotYet, What: what, Cause: unready.Error(), Err: err}
	case errors.Is(err, sink.ErrNoFence):
		return &diag.Error{Code: diag.RetryNotYet, What: what, Cause: "no worker has raised the target's fence yet", Fix: "start `replicator run`, and retry when it writes", Err: err}
	case cdc.Is(err, cdc.NotFound), cdc.Is(err, cdc.Denied), cdc.Is(err, cdc.Throttled), cdc.Is(err, cdc.Unavailable), cdc.Is(err, cdc.Malformed):
		return preflight.ExplainSource(what, table, err)
	}
	return preflight.ReadingFailed(ctx, what, err)
}

// repairer is what repairs items of a table, once it is clear that it may: the ledger must know the
// table, under this mapping and with this cluster behind the app profile, as run demands it.
func (d *Decision) repairer(ctx context.Context, src Source, table string) (*sink.Repairer, error) {
	t, ok := d.Cfg.Table(table)
	if !ok {
		return nil, &diag.Error{Code: diag.Usage, What: "the configuration has no source table " + table + ", of which items are parked",
			Fix: "use the configuration under which they were parked, or name another table with --table"}
	}
	ctx, cancel := preflight.Reading(ctx)
	defer cancel()
	what := "cannot retry items of table " + table
	ledger, err := checkpoint.Open(ctx, d.Target.Ledger(d.Cfg.State.Table), d.Cfg.Name, checkpoint.Options{ReadOnly: true, Lease: d.Cfg.State.Lease})
	if err != nil {
		return nil, preflight.ReadingFailed(ctx, what, err)
	}
	state, err := underMapping(ctx, ledger, table, d.Cfg.Hash(t))
	if err == nil {
		err = preflight.SameCluster(ctx, ledger, d.Target.Cluster)
	}
	if err != nil {
		return nil, preflight.ReadingFailed(ctx, what, err)
	}
	found, err := preflight.DescribeTable(ctx, src, t)
	if err != nil {
		return nil, err
	}
	if err := pipeline.CheckSource(found.Description, state.StreamARN); err != nil {
		return nil, preflight.Explain(what, err)
	}
	now := generations{ledger: ledger, table: table, mapping: d.Cfg.Hash(t)}
	return &sink.Repairer{Mapping: found.Mapping, Rows: d.Target, Table: d.Target,
		Item: itemReader(src, table), Fence: fence.Marks(ledger), Current: now.current, Generation: now.admissible}, nil
}

// generations are what the ledger says of a table's generation. They are read anew for every item:
// a retry of many takes hours.
type generations struct {
	ledger         *checkpoint.Ledger
	table, mapping string
}

// current is the generation that rows are written in.
func (g generations) current(ctx context.Context) (uint32, error) {
	state, err := underMapping(ctx, g.ledger, g.table, g.mapping)
	return state.Generation, err
}

// admissible is the generation in which every change after a time will be applied; an error if
// there is none yet.
func (g generations) admissible(ctx context.Context, at time.Time) (uint32, error) {
	state, _, err := g.ledger.Table(ctx, g.table)
	if err != nil {
		return 0, err
	}
	shards, err := g.ledger.Shards(ctx, g.table)
	if err != nil {
		return 0, err
	}
	return state.Generation, checkpoint.Admissible(state, shards, at)
}

// underMapping is the ledger's record of a table, if its rows are written by the mapping of this
// hash.
func underMapping(ctx context.Context, ledger *checkpoint.Ledger, table, hash string) (checkpoint.TableState, error) {
	state, _, err := ledger.Table(ctx, table)
	if err == nil && state.MappingHash != hash {
		err = checkpoint.ErrMappingChanged
	}
	return state, err
}

// itemReader reads items of a table, strongly consistently.
func itemReader(source Source, table string) func(context.Context, attribute.Item) (attribute.Item, bool, error) {
	return func(ctx context.Context, keys attribute.Item) (attribute.Item, bool, error) {
		return source.Get(ctx, table, keys)
	}
}

// writeRetried says what became of so many items as were chosen. Those that were not come to,
// because something failed, are left.
func (d *Decision) writeRetried(results []retried, chosen int) error {
	resolved := 0
	for _, r := range results {
		if r.resolved() {
			resolved++
		}
	}
	if d.AsJSON() {
		return d.WriteJSON(struct {
			Schema   string    `json:"schema"`
			Resolved int       `json:"resolved"`
			Left     int       `json:"left"`
			Items    []retried `json:"items"`
		}{"replicator.parked_retry/v1", resolved, chosen - resolved, results})
	}
	if len(results) == 0 {
		return nil
	}
	words := map[string]string{outcomeStored: "stored as it is now", outcomeRemoved: "gone in the source", outcomeParked: "still parked", outcomeChanged: "still parked"}
	tab := tabwriter.NewWriter(d.Stdout, 0, 0, 2, ' ', 0)
	for _, r := range results {
		_, _ = fmt.Fprintf(tab, "%s/%s\t%s", r.Table, r.KeyHash, words[r.Outcome])
		if r.Reason != nil {
			_, _ = fmt.Fprintf(tab, ": %s", *r.Reason)
		}
		_, _ = fmt.Fprintln(tab)
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(d.Stdout, "%d of %s resolved\n", resolved, terminal.Plural(chosen, "item"))
	return err
}

// retryVerdict is nil if every item is resolved.
func retryVerdict(results []retried) error {
	left := 0
	for _, r := range results {
		if !r.resolved() {
			left++
		}
	}
	if left == 0 {
		return nil
	}
	return &diag.Error{Code: diag.ItemsParked, What: terminal.Plural(left, "item") + " could not be stored again", Cause: "the reasons are listed above",
		Fix: "correct the items in the source, which resolves them, or retry; `replicator parked drop` gives them up"}
}
