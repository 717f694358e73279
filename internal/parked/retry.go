package parked

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"text/tabwriter"

	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/repair"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Decision is an operator's decision about parked records. Decide opens the target and finds the
// records.
type Decision struct {
	*terminal.Console
	Cfg     *config.Config
	Allowed environment.Allowed
	Ends    desk.Ends
	Log     *slog.Logger
	// Decide sets the following fields.
	Connect func(ctx context.Context) (repair.Source, error) // connects to the source, for a retry
	Target  repair.Target
	Lot     *sink.Parking
	Chosen  []Record
}

// The outcomes of a retry.
const (
	outcomeStored  = "stored"       // the target has the item's current content
	outcomeRemoved = "removed"      // the item is absent from source and target
	outcomeParked  = "still_parked" // the item still cannot be stored
	// The item changes faster than the repair can write; its next changes will store it.
	outcomeChanged = "changing"
)

// retried is the outcome for one item.
type retried struct {
	Table   string  `json:"table"`
	KeyHash string  `json:"key_hash"`
	Outcome string  `json:"outcome"`
	Records int     `json:"records"` // number of parked records of the item
	Written int     `json:"rows_written"`
	Reason  *string `json:"reason"` // why the item is still parked
}

func (r *retried) resolved() bool { return r.Outcome == outcomeStored || r.Outcome == outcomeRemoved }

// Retry repairs every chosen item and resolves its records. It stops at the first error of the
// source or the target, and shows the results so far.
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
				made, err := d.repairer(ctx, src, source)
				if err != nil {
					return err
				}
				defer made.Leave(ctx)
				r = made.Repairer
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

// retryItem repairs one item. It resolves only the given records, which were parked before the item
// is read. A change that is parked later stays parked.
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
	case errors.Is(err, sink.ErrOvertaken), errors.Is(err, sink.ErrRepairs), errors.Is(err, sink.ErrPending), errors.Is(err, sink.ErrVersion):
		reason := err.Error()
		result.Outcome, result.Reason = outcomeChanged, &reason
		return result, nil
	case err != nil:
		return result, repair.Failed(limited, "cannot retry an item of table "+records[0].Source, records[0].Source, err)
	}
	result.Outcome, result.Written = outcomeStored, done.Written
	if !done.Present {
		result.Outcome = outcomeRemoved
	}
	for _, record := range records {
		if err := d.Lot.Remove(limited, record.Ref); err != nil {
			return result, Explain(limited, d.Cfg, err)
		}
		d.Log.Info("resolved parked item: retry succeeded", admin.KeyTable, record.Source, admin.KeyParked, string(record.Ref))
	}
	return result, nil
}

// repairer returns a repairer for items of a table. It fails if a repair is not allowed.
func (d *Decision) repairer(ctx context.Context, src repair.Source, table string) (*repair.Repairer, error) {
	t, ok := d.Cfg.Table(table)
	if !ok {
		return nil, &diag.Error{Code: diag.Usage, What: "the configuration has no source table " + table + ", but items of it are parked",
			Fix: "use the configuration under which they were parked, or name another table with --table"}
	}
	return repair.Of(ctx, d.Cfg, t, src, d.Target, "cannot retry items of table "+table)
}

// writeRetried writes the outcomes for the chosen items. Items that were not tried because of a
// failure count as left.
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
	words := map[string]string{outcomeStored: "stored with its current content", outcomeRemoved: "removed from the source", outcomeParked: "still parked", outcomeChanged: "still parked"}
	tab := tabwriter.NewWriter(d.Stdout, 0, 0, 2, ' ', 0)
	for _, r := range results {
		_, _ = fmt.Fprintf(tab, "%s/%s\t%s", r.Table, r.KeyHash, words[r.Outcome])
		if r.Reason != nil {
			_, _ = fmt.Fprintf(tab, ": %s", diag.Printable(*r.Reason))
		}
		_, _ = fmt.Fprintln(tab)
	}
	if err := tab.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(d.Stdout, "%d of %s resolved\n", resolved, terminal.Plural(chosen, "item"))
	return err
}

// retryVerdict returns nil if every item is resolved.
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
		Fix: "correct the items in the source, which resolves them, or retry; `replicator parked drop` discards them"}
}
