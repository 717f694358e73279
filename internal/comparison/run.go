package comparison

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/verify"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/loads"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/telemetry"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

const (
	// itemsPerSecond is the assumed rate at which one process compares items, used until the rate
	// is measured.
	itemsPerSecond = 10_000
	// partsAtOnce is the number of parts of a table that this process compares concurrently.
	partsAtOnce = 4
	// reportEvery is the time between two lines that show the progress of a verify.
	reportEvery = 10 * time.Second
)

// Begin begins a verify of each table, or joins a running verify. It compares parts until the
// verifies are over. It returns the error RowsDiffer if rows differ or stay in flight.
func (o *Operator) Begin(ctx context.Context) error {
	exports, err := o.exports(ctx)
	if err != nil {
		return err
	}
	defer exports.Stop()
	o.tracer = exports.Tracer()
	switch {
	case o.Reverse:
		return o.beginReverse(ctx)
	case o.byKey():
		return o.compareKeys(ctx)
	case o.InFlight:
		return o.recheckInFlight(ctx)
	}
	if err := o.checkReport(); err != nil {
		return err
	}
	if err := o.open(ctx, o.command()); err != nil {
		return err
	}
	defer o.migration.Close()
	for i := range o.tables {
		if err := o.begin(ctx, &o.tables[i]); err != nil {
			return explain(ctx, "cannot verify table "+o.tables[i].config.From, err)
		}
	}
	if !o.Waits {
		return o.write(o.judge(o.now(ctx)))
	}
	left := o.work(ctx)
	if left != nil { // the results of finished tables are shown first
		if diag.ExitCode(left) == diag.ExitInterrupted {
			return left
		}
		reading, cancel := preflight.Reading(context.WithoutCancel(ctx))
		defer cancel()
		ctx = reading
	}
	if err := o.refresh(ctx); err != nil {
		return errors.Join(left, explain(ctx, "cannot read the ledger in table "+o.Cfg.State.Table, err))
	}
	left = errors.Join(left, o.unfinished())
	if err := o.findings(ctx); err != nil {
		return errors.Join(left, err)
	}
	return o.conclude(ctx, left, o.verdict)
}

// conclude repairs what differs, unless the comparison ended early with the error `left`. It then
// writes the results, and returns all errors with the verdict.
func (o *Operator) conclude(ctx context.Context, left error, verdict func() error) error {
	var failed error
	if left == nil {
		failed = o.repair(ctx)
	}
	d := o.judge(o.now(ctx))
	if err := errors.Join(o.write(d), o.report(d), failed); err != nil {
		return errors.Join(left, err)
	}
	return errors.Join(left, verdict())
}

// command returns the name under which the command opens the migration.
func (o *Operator) command() string {
	if o.Repair && !o.DryRun {
		return "verify --repair"
	}
	return "verify"
}

// ready returns why rows of the table cannot be compared; nil if they can.
func (t *table) ready() error {
	if err := t.state.CheckCopied("verify"); err != nil {
		return err
	}
	if !t.found || t.state.Generation == 0 {
		return &checkpoint.LoadError{Table: t.config.From, Step: "verify", Reason: "no worker has followed the table yet",
			Cure: "start `replicator run`, then verify once `replicator status` shows the table"}
	}
	return nil
}

// exports starts the export of this command's traces, if the environment asks for it. The command has
// no metrics.
func (o *Operator) exports(ctx context.Context) (*telemetry.Telemetry, error) {
	log := o.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return telemetry.Start(ctx, telemetry.Options{Env: o.Env, Clock: task.Clock(ctx), Log: log, Pipeline: o.Cfg.Name, TracesOnly: true})
}

// begin plans the verify of a table, unless one is running.
func (o *Operator) begin(ctx context.Context, t *table) error {
	if err := t.ready(); err != nil {
		return err
	}
	hash := o.Cfg.Hash(t.config)
	if why := t.state.VerifyOutdated(); why != "" {
		_, _ = fmt.Fprintf(o.Stderr, "%s: ended the running verify: %s\n", t.config.From, why)
		var err error
		if t.state, err = o.ledger.EndOutdatedVerify(ctx, t.config.From); err != nil {
			return err
		}
	}
	if t.state.Verify.Running() {
		_, _ = fmt.Fprintf(o.Stderr, "%s: resumed the running verify\n", t.config.From)
		return nil
	}
	var err error
	t.state, err = Beginning{
		Ledger: o.ledger, Source: o.ends.source, Target: o.ends.target, Mapping: t.mapping, Hash: hash,
		Sample: o.Sample, Ago: o.ChangedSince, Items: t.items, Bytes: t.bytes,
	}.Begin(ctx, t.state)
	return err
}

// work compares parts of all tables until their verifies are over.
func (o *Operator) work(ctx context.Context) error {
	g := task.NewGroup(ctx, 0)
	failed := make([]error, len(o.tables))
	slots := &verify.Slots{}
	for i := range o.tables {
		t := &o.tables[i]
		number := t.state.Verify.Number
		reported := task.Mono(ctx)
		over := func(s checkpoint.TableState) bool {
			if now := task.Mono(ctx); s.Verify.Running() && now-reported >= reportEvery {
				reported = now
				parts, err := o.ledger.VerifyParts(ctx, s, s.Verify.Phase)
				if err == nil {
					row := Table{Source: t.config.From, State: StateOf(s), Progress: progressOf(s, parts, cost.Default(), o.now(ctx))}
					_, _ = fmt.Fprintf(o.Stderr, "%s  %s, %s, %s\n", row.Source, row.progressText(),
						terminal.Plural(int(row.Progress.Items), "item"), terminal.Plural(int(row.Progress.Rows), "row"))
				}
			}
			return !s.Verify.Running() || s.Verify.Number != number || s.Verify.Paused != ""
		}
		g.Go("verify "+t.config.From, func(ctx context.Context) error {
			err := verify.Run(ctx, verify.Options{
				Ledger: o.ledger, Database: o.ends.source, Rows: o.ends.target, Open: o.ends.stream, Over: over, Patience: o.patience(), Slots: slots,
				Table: engine.Spec{Mapping: t.mapping, MappingHash: o.Cfg.Hash(t.config), Settle: o.Cfg.Verify.Settle, Late: o.Cfg.Late(t.config), Owned: t.config.Owned,
					Segments: partsAtOnce, Limits: loads.Configured(o.Cfg.Backfill)},
				Timing: engine.Timing{Pass: 500 * time.Millisecond}, Tracer: o.tracer,
			})
			// An error of one table does not end the verifies of other tables.
			failed[i] = explain(ctx, "cannot verify table "+t.config.From, err)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return explain(ctx, "cannot verify", err)
	}
	if ctx.Err() != nil {
		return explain(ctx, "cannot verify", ctx.Err())
	}
	return errors.Join(failed...)
}

// unfinished returns the error for verifies that other processes ended without a result.
func (o *Operator) unfinished() error {
	var found diag.List
	for i := range o.tables {
		t := &o.tables[i]
		switch v := t.state.Verify; {
		case v.Running() && v.Paused != "":
			found = append(found, &diag.Error{Code: diag.VerifyWaits, What: "the verify of table " + t.config.From + " is paused", Cause: "an operator paused it",
				Fix: "replicator verify resume --table " + t.config.From + o.With})
		// The table is cut over, so another verify would be refused.
		case !v.Running() && v.Result.Number != v.Number && v.Ended != "" && t.state.Halt.Switched:
			found = append(found, &diag.Error{Code: diag.CutOver, What: "the verify of table " + t.config.From + " has no result", Cause: v.Ended})
		case !v.Running() && v.Result.Number != v.Number && v.Ended != "":
			found = append(found, &diag.Error{Code: diag.VerifyWaits, Exit: diag.ExitFailed, What: "the verify of table " + t.config.From + " has no result", Cause: v.Ended,
				Fix: "begin another: replicator verify --table " + t.config.From + o.With})
		case !v.Running() && v.Result.Number != v.Number:
			found = append(found, &diag.Error{Code: diag.VerifyWaits, What: "the verify of table " + t.config.From + " has no result", Cause: "it was cancelled"})
		}
	}
	return found.Err()
}

func (o *Operator) patience() time.Duration {
	if o.Patience > 0 {
		return o.Patience
	}
	return patience
}
