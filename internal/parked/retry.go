package parked

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"text/tabwriter"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
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

// Decision is an operator's decision about parked records.
type Decision struct {
	*terminal.Console
	Cfg     *config.Config
	Allowed config.Allowed
	Log     *slog.Logger
	Target  *preflight.Target
	Lot     *sink.Parking
	Chosen  []Record
}

// The outcomes of a retry.
const (
	OutcomeStored  = "stored"       // the item is in the target as it is now
	outcomeRemoved = "removed"      // the source no longer holds it, and neither does the target
	outcomeParked  = "still_parked" // it cannot be stored
	OutcomeChanged = "changing"     // it changes faster than it is repaired; its changes bring it
)

// Retried is what became of one item.
type Retried struct {
	Table   string  `json:"table"`
	KeyHash string  `json:"key_hash"`
	Outcome string  `json:"outcome"`
	Records int     `json:"records"` // that the item had parked
	Written int     `json:"rows_written"`
	Reason  *string `json:"reason"` // why it is still parked
}

func (r *Retried) resolved() bool { return r.Outcome == OutcomeStored || r.Outcome == outcomeRemoved }

// Retry repairs every chosen item and resolves its records. It stops at the first error of either end, and tells what was done
// until then.
func (d *Decision) Retry(ctx context.Context) error {
	results := []Retried{}
	items := ByItem(d.Chosen)
	failed := func() error {
		if len(items) == 0 {
			return nil
		}
		src, err := preflight.ConnectSource(ctx, d.Cfg)
		if err == nil {
			err = src.CheckEndpoints(d.Env, d.Allowed)
		}
		if err != nil {
			return err
		}
		repairers := map[string]*sink.Repairer{}
		for _, records := range items {
			source := records[0].Source
			r := repairers[source]
			if r == nil {
				if r, err = d.Repairer(ctx, src, source); err != nil {
					return err
				}
				repairers[source] = r
			}
			result, err := d.RetryItem(ctx, r, records)
			if err != nil {
				return err
			}
			results = append(results, result)
		}
		return nil
	}()
	if err := errors.Join(d.WriteRetried(results, len(items)), failed); err != nil {
		return err
	}
	return retryVerdict(results)
}

// RetryItem repairs one item. The records are those that were parked before the item is read, so that a change which is parked
// meanwhile stays parked.
func (d *Decision) RetryItem(ctx context.Context, r *sink.Repairer, records []Record) (Retried, error) {
	limited, cancel := context.WithTimeoutCause(ctx, preflight.ReadTime, preflight.ErrReadTime)
	defer cancel()
	_, hash, _ := records[0].Ref.Parts()
	result := Retried{Table: records[0].Source, KeyHash: hash, Records: len(records)}
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
		result.Outcome, result.Reason = OutcomeChanged, &reason
		return result, nil
	case err != nil:
		return result, RepairFailed(limited, records[0].Source, err)
	}
	result.Outcome, result.Written = OutcomeStored, done.Written
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

// RepairFailed explains what stopped a repair. Its outcome may be unknown; the same command may be given again.
func RepairFailed(ctx context.Context, table string, err error) error {
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

// Repairer is what repairs items of a table, once it is clear that it may: the ledger must know the table, under this mapping
// and with this cluster behind the app profile, as run demands it.
func (d *Decision) Repairer(ctx context.Context, src *preflight.Source, table string) (*sink.Repairer, error) {
	t, ok := d.Cfg.Table(table)
	if !ok {
		return nil, &diag.Error{Code: diag.Usage, What: "the configuration has no source table " + table + ", of which items are parked",
			Fix: "use the configuration under which they were parked, or name another table with --table"}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, preflight.ReadTime, preflight.ErrReadTime)
	defer cancel()
	what := "cannot retry items of table " + table
	ledger, err := checkpoint.Open(ctx, preflight.LedgerStore(d.Target, d.Cfg), d.Cfg.Name, checkpoint.Options{ReadOnly: true, Lease: d.Cfg.State.Lease})
	if err != nil {
		return nil, preflight.ReadingFailed(ctx, what, err)
	}
	state, err := UnderMapping(ctx, ledger, table, d.Cfg.Hash(t))
	if err == nil {
		err = d.SameCluster(ctx, ledger)
	}
	if err != nil {
		return nil, preflight.ReadingFailed(ctx, what, err)
	}
	found, err := preflight.DescribeTable(ctx, src.Tables, t)
	if err != nil {
		return nil, err
	}
	if err := pipeline.CheckSource(found.Description, state.StreamARN); err != nil {
		return nil, preflight.Explain(what, err)
	}
	return &sink.Repairer{
		Mapping: found.Mapping, Rows: d.Target.Data, Table: d.Target.Data,
		Item:  itemReader(src.Tables, table),
		Fence: fence.Marks(ledger),
		Current: func(ctx context.Context) (uint32, error) { // a retry of many items takes hours
			state, err := UnderMapping(ctx, ledger, table, d.Cfg.Hash(t))
			return state.Generation, err
		},
		Generation: func(ctx context.Context, at time.Time) (uint32, error) {
			state, _, err := ledger.Table(ctx, table)
			if err != nil {
				return 0, err
			}
			shards, err := ledger.Shards(ctx, table)
			if err != nil {
				return 0, err
			}
			return state.Generation, checkpoint.Admissible(state, shards, at)
		},
	}, nil
}

// UnderMapping is the ledger's record of a table, if its rows are written by the mapping of this hash.
func UnderMapping(ctx context.Context, ledger *checkpoint.Ledger, table, hash string) (checkpoint.TableState, error) {
	state, _, err := ledger.Table(ctx, table)
	if err == nil && state.MappingHash != hash {
		err = checkpoint.ErrMappingChanged
	}
	return state, err
}

// itemReader reads items of a table, strongly consistently.
func itemReader(tables *backfill.Tables, table string) func(context.Context, attribute.Item) (attribute.Item, bool, error) {
	return func(ctx context.Context, keys attribute.Item) (attribute.Item, bool, error) {
		return tables.Get(ctx, table, keys)
	}
}

// SameCluster refuses another cluster than the one that the versions of the rows were written in.
func (d *Decision) SameCluster(ctx context.Context, ledger *checkpoint.Ledger) error {
	known, err := ledger.Cluster(ctx)
	if err != nil || known == "" {
		return err
	}
	profile, err := d.Target.Admin.Profile(ctx)
	if err == nil && profile.Cluster != "" && profile.Cluster != known {
		err = checkpoint.ErrClusterChanged
	}
	return err
}

// WriteRetried tells what became of so many items as were chosen. Those that were not come to, because something failed, are left.
func (d *Decision) WriteRetried(results []Retried, chosen int) error {
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
			Items    []Retried `json:"items"`
		}{"replicator.parked_retry/v1", resolved, chosen - resolved, results})
	}
	if len(results) == 0 {
		return nil
	}
	words := map[string]string{OutcomeStored: "stored as it is now", outcomeRemoved: "gone in the source", outcomeParked: "still parked", OutcomeChanged: "still parked"}
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
func retryVerdict(results []Retried) error {
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
