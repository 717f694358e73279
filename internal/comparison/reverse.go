package comparison

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/loads"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/reverse"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

// reversed is the result of a comparison of a table's items with their rows.
type reversed struct {
	reverse.Result
	gapEnded bool
}

// beginReverse compares the items of each table that follows its target with their rows. It returns
// the error RowsDiffer if some differ.
func (o *Operator) beginReverse(ctx context.Context) error {
	if err := o.open(ctx, "verify --reverse"); err != nil {
		return err
	}
	defer o.migration.Close()
	if err := o.followers(ctx); err != nil {
		return err
	}
	var failed error
	for i := range o.tables {
		t := &o.tables[i]
		err := o.compareItems(ctx, t)
		if ctx.Err() != nil {
			return explain(ctx, "cannot verify table "+t.config.From, ctx.Err())
		}
		failed = errors.Join(failed, o.notReversed(ctx, t, err))
	}
	d := o.judge(o.now(ctx))
	return errors.Join(o.write(d), failed, o.reverseVerdict())
}

// followers keeps the tables that follow their targets, and reads their descriptions. It refuses the
// command if the operator has named another table, or if there is no such table.
func (o *Operator) followers(ctx context.Context) error {
	var refused error
	for i := range o.tables {
		t := &o.tables[i]
		if err := o.noWayBack(t); err != nil {
			refused = err
			continue
		}
		if _, err := o.migration.Describe(ctx, t.config.From); err != nil {
			return err
		}
	}
	o.reached()
	o.tables = slices.DeleteFunc(o.tables, func(t table) bool { return o.noWayBack(&t) != nil })
	if len(o.tables) > 0 {
		return nil
	}
	if refused == nil { // no table of a pattern is known
		refused = o.migration.NotStarted(o.Table)
	}
	return refused
}

// noWayBack returns why the items of a table cannot be compared with their rows; nil if they can.
func (o *Operator) noWayBack(t *table) error {
	refuse := func(cause, fix string) error {
		return &diag.Error{Code: diag.VerifyRefused, What: "cannot compare the items of table " + t.config.From + " with their rows", Cause: cause, Fix: fix + o.With}
	}
	switch t.fallback.State {
	case checkpoint.FallbackFollowing, checkpoint.FallbackGap:
		return nil
	case checkpoint.FallbackStandby:
		return refuse("the application has not been switched to the target yet", "wait for the switch: replicator cutover status")
	case checkpoint.FallbackStopping, checkpoint.FallbackStopped:
		return refuse("the way back was ended, so DynamoDB does not follow Bigtable any more", "see replicator cutover status")
	}
	return refuse("the table has no way back: only after a cutover with --keep-fallback yes DynamoDB follows Bigtable", "compare rows with items: replicator verify")
}

// compareItems compares a table, and stores the result in the ledger.
func (o *Operator) compareItems(ctx context.Context, t *table) error {
	c, err := o.reverseOf(ctx, t)
	if err != nil {
		return err
	}
	// The record is read before the comparison begins, so that the comparison can end its gap.
	seen, _, err := o.ledger.Fallback(ctx, t.config.From)
	if err != nil {
		return err
	}
	var found reverse.Result
	err = engine.Traced(ctx, o.tracer, engine.SpanVerifyReverse, t.config.From, func(ctx context.Context) (facts engine.SpanFacts, err error) {
		found, err = c.Compare(ctx)
		return engine.SpanFacts{Items: found.Items, Rows: int(found.Rows)}, err
	})
	if err != nil {
		return err
	}
	t.reversed = &reversed{Result: found}
	t.fallback, t.reversed.gapEnded, err = o.ledger.KeepReverse(ctx, seen, found.ReverseResult)
	return err
}

// reverseOf returns the comparison of a table.
func (o *Operator) reverseOf(ctx context.Context, t *table) (*reverse.Comparison, error) {
	at := slices.IndexFunc(o.migration.Tables, func(m preflight.Table) bool { return m.Config.From == t.config.From })
	cutovers := o.migration.Cutovers()
	c := cutovers.Of(t.config.From, t.config.Pattern())
	w, err := preflight.WayBackRecorded(o.migration.Tables[at], c.Forms[t.config.From])
	if err != nil {
		return nil, err
	}
	r := reverse.New(o.ledger, w.Mapping, w.Types, o.ends.source, o.ends.target)
	r.Repair, r.Retry = o.Repair, o.retries(t)
	limits := o.readLimits(t)
	r.Pace = func(ctx context.Context, items int, units float64) error {
		_, _, err := limits.Take(ctx, ctx, items, units)
		return err
	}
	shown := task.Mono(ctx)
	r.Progress = func(rows, items int64) {
		if now := task.Mono(ctx); now-shown >= reportEvery {
			shown = now
			_, _ = fmt.Fprintf(o.Stderr, "%s  %s, %s\n", t.config.From, terminal.Plural(int(items), "item"), terminal.Plural(int(rows), "row"))
		}
	}
	return r, nil
}

// retries returns a function that repeats a read until it succeeds, at most for the operator's
// patience. It says when reads begin to fail. A request that the source refuses as invalid is not
// repeated, because the same request is refused again.
func (o *Operator) retries(t *table) func(ctx context.Context, op func(ctx context.Context) error) error {
	var shown atomic.Bool
	events := engine.Events{Retry: func(table, _ string, _ time.Duration, err error) {
		if !shown.Swap(true) {
			_, _ = fmt.Fprintf(o.Stderr, "%s  retrying for at most %s: %s\n", table, timespan.Format(o.patience()), diag.Printable(err.Error()))
		}
	}}
	r := &engine.Retrier{Source: t.config.From, Events: events.OrSilent()}
	return func(ctx context.Context, op func(ctx context.Context) error) error {
		limited, cancel := task.WithTimeout(ctx, o.patience())
		defer cancel()
		return r.Retry(engine.Until(limited), "verify", func(ctx context.Context) error {
			err := op(ctx)
			if cdc.Is(err, cdc.Malformed) {
				cancel()
			}
			return err
		})
	}
}

// readLimits returns the configured limits of reads for a table.
func (o *Operator) readLimits(t *table) *backfill.Limits {
	configured := loads.Configured(o.Cfg.Backfill)
	var rows, units float64
	if configured.RowsPerSecond != nil {
		rows = *configured.RowsPerSecond
	}
	if read := configured.Read; read != nil {
		units = max(read.Units, read.Share*float64(t.capacity))
	}
	return backfill.NewLimits(rows, units)
}

// notReversed explains why a comparison of items with rows has no result.
func (o *Operator) notReversed(ctx context.Context, t *table, err error) error {
	what := "cannot compare the items of table " + t.config.From + " with their rows"
	switch {
	case errors.Is(err, reverse.ErrNotLooked):
		return &diag.Error{Code: diag.VerifyWaits, Exit: diag.ExitTimeout, What: "the repair of table " + t.config.From + " did not end in time", Cause: err.Error(),
			Fix: "check that a worker is running: replicator status" + o.With + "; then repeat the command", Err: err}
	case errors.Is(err, reverse.ErrNotFollowing):
		return &diag.Error{Code: diag.VerifyRefused, Exit: diag.ExitFailed, What: what, Cause: err.Error(), Fix: "see replicator cutover status" + o.With, Err: err}
	case err == nil:
		return nil
	}
	return preflight.Explain(what, err)
}

// reverseVerdict returns the error of the command: nil if all items equal their rows.
func (o *Operator) reverseVerdict() error {
	var found diag.List
	for i := range o.tables {
		t := &o.tables[i]
		if t.reversed == nil {
			continue
		}
		r, at := t.reversed, " of table "+t.config.From
		if n := int(r.Differing()); n > 0 {
			fix := "replicator verify --reverse --repair --table " + t.config.From + o.With
			if o.Repair {
				fix = "repeat the command; if the number does not fall, see replicator status" + o.With
			}
			found = append(found, &diag.Error{Code: diag.RowsDiffer, What: terminal.RowsDiffer(n, "table "+t.config.From) + " from the target", Cause: "they are listed above", Fix: fix})
		}
		if n := int(r.Parked); n > 0 {
			found = append(found, &diag.Error{Code: diag.RowsDiffer, What: terminal.Are(n, "row") + " parked" + at,
				Cause: "the leader of the way back cannot carry them to DynamoDB; they are listed above with the reasons", Fix: "correct these rows in Bigtable; the leader then looks at them again"})
		}
	}
	return found.Err()
}
