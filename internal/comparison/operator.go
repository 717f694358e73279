package comparison

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/repair"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// Operator is somebody at a machine who verifies tables.
type Operator struct {
	*terminal.Console
	Cfg     *config.Config
	Allowed config.Allowed
	With    string // flags of the commands that are named
	Table   string // "" for all
	// Sample is the share of the items to compare, 0 for all; ChangedSince compares what changed in
	// that time only, 0 for all.
	Sample       float64
	ChangedSince time.Duration
	// ShowValues writes keys and values of what differs.
	ShowValues bool
	// Waits works on the parts until the verify is over; else it is left to the workers.
	Waits bool
	// Repair mends what a comparison found; DryRun only says what that would do.
	Repair, DryRun bool
	// Report is the file that gets a line for each difference, with a page beside it; "" for none.
	Report string
	// Log is where a repair says that it is over; nil: nowhere.
	Log *slog.Logger
	// Patience is how long to wait until changes of before are applied; 0 is two minutes.
	Patience time.Duration

	target *preflight.Target
	source *preflight.Source
	ledger *checkpoint.Ledger // nil before the migration has begun
	tables []table
}

// table is one table that is verified.
type table struct {
	config  config.Table
	found   bool
	state   checkpoint.TableState
	parts   []checkpoint.Part
	mapping *transform.Mapping // nil unless the source was asked
	bytes   int64
	items   int64
	list    []verify.Finding
	mended  *repair.Document // nil: nothing was repaired
}

// patience is how long a command waits until changes of before are applied, with nobody to apply
// them perhaps.
const patience = 2 * time.Minute

// Show writes where the verifies stand, and what the last ones found.
func (o *Operator) Show(ctx context.Context) error {
	if err := o.open(ctx); err != nil {
		return err
	}
	defer o.target.Close()
	if o.ledger == nil {
		return o.write(o.judge(time.Now()))
	}
	lists := func(t table) bool { return !t.state.Verify.Running() && t.state.Verify.Result.Differing() > 0 }
	if slices.ContainsFunc(o.tables, lists) { // whose keys are named by the mapping, which the source's key is part of
		if err := o.connect(ctx); err != nil {
			return err
		}
		if err := o.findings(ctx); err != nil {
			return err
		}
	}
	return o.write(o.judge(time.Now()))
}

// The steps of Steer.
const (
	Pause  = "pause"
	Resume = "resume"
	Cancel = "cancel"
)

// Steer pauses the verifies that are under way, lets them go on, or ends them.
func (o *Operator) Steer(ctx context.Context, step string) error {
	if err := config.CheckEnvironment(o.Env, o.Allowed).Err(); err != nil {
		return err
	}
	if err := o.open(ctx); err != nil {
		return err
	}
	defer o.target.Close()
	if err := o.begun(); err != nil {
		return err
	}
	acted := 0
	for i := range o.tables {
		t := &o.tables[i]
		if o.Table == "" && !t.state.Verify.Running() {
			continue
		}
		do := map[string]func(context.Context, string) (checkpoint.TableState, error){
			Pause: o.ledger.PauseVerify, Resume: o.ledger.ResumeVerify, Cancel: o.ledger.CancelVerify,
		}[step]
		state, err := do(ctx, t.config.From)
		if err == nil && step == Cancel {
			err = o.ledger.RemoveVerify(ctx, t.config.From)
		}
		if err != nil {
			return explain(ctx, "cannot "+step+" the verify of table "+t.config.From, err)
		}
		t.state = state
		acted++
	}
	if acted == 0 {
		return &diag.Error{Code: diag.VerifyRefused, What: "there is no verify to " + step, Cause: "none is under way", Fix: "begin one: replicator verify" + o.With}
	}
	return o.write(o.judge(time.Now()))
}

// open opens the target and reads the ledger.
func (o *Operator) open(ctx context.Context) error {
	if err := preflight.KnownTable(o.Cfg, o.Table); err != nil {
		return err
	}
	var err error
	if o.target, err = preflight.OpenTarget(ctx, o.Cfg); err != nil {
		return err
	}
	if host, _ := o.Env("BIGTABLE_EMULATOR_HOST"); host != "" {
		_, _ = fmt.Fprintf(o.Stderr, "%s EMULATOR at %s\n", preflight.TargetName(o.Cfg), host)
	}
	if err := o.read(ctx); err != nil {
		return errors.Join(err, o.target.Close())
	}
	return nil
}

// read opens the ledger, and reads its tables.
func (o *Operator) read(ctx context.Context) error {
	ctx, cancel := preflight.Reading(ctx)
	defer cancel()
	what := "cannot read the ledger in table " + o.Cfg.State.Table
	ledger, err := preflight.OpenLedger(ctx, preflight.LedgerStore(o.target, o.Cfg), o.Cfg, "verify", "")
	if err != nil {
		return preflight.ReadingFailed(ctx, what, err)
	}
	o.ledger = ledger
	tables, err := preflight.LedgerTables(ctx, o.Cfg, ledger, o.Table)
	if err == nil {
		o.tables = make([]table, len(tables))
		for i, t := range tables {
			o.tables[i].config = t
			o.tables[i].state.Source = t.From
		}
		err = o.refresh(ctx)
	}
	if err != nil {
		return preflight.ReadingFailed(ctx, what, err)
	}
	return nil
}

// refresh reads every table's record and parts again.
func (o *Operator) refresh(ctx context.Context) (err error) {
	for i := range o.tables {
		t := &o.tables[i]
		if o.ledger == nil {
			return nil
		}
		if t.state, t.found, err = o.ledger.Table(ctx, t.config.From); err != nil {
			return err
		}
		t.parts = nil
		if run := t.state.Verify; run.Running() {
			if t.parts, err = o.ledger.VerifyParts(ctx, t.state, run.Phase); err != nil {
				return err
			}
		}
	}
	return nil
}

// begun refuses where there is no migration, or another cluster behind the app profile.
func (o *Operator) begun() error {
	if o.ledger == nil {
		return &diag.Error{Code: diag.VerifyRefused, What: "there is no migration to verify", Cause: "no ledger of the name " + o.Cfg.Name + " is in table " + o.Cfg.State.Table,
			Fix: "start `replicator run`, and verify when `replicator status` shows the tables"}
	}
	return nil
}

// connect asks the source for the tables, whose keys are part of their mappings.
func (o *Operator) connect(ctx context.Context) error {
	src, err := preflight.ConnectSource(ctx, o.Cfg)
	if err != nil {
		return err
	}
	o.source = src
	for i := range o.tables {
		t := &o.tables[i]
		found, err := preflight.DescribeTable(ctx, src.Tables, t.config)
		if err != nil {
			return err
		}
		t.mapping, t.bytes, t.items = found.Mapping, found.Description.Bytes, found.Description.Items
	}
	return nil
}

// findings reads what the last verifies found; with ShowValues both sides are read again for it.
func (o *Operator) findings(ctx context.Context) error {
	for i := range o.tables {
		t := &o.tables[i]
		run := t.state.Verify
		if run.Running() || !run.Result.Known() || run.Result.Differing() == 0 || t.mapping == nil {
			continue
		}
		found, err := verify.Findings(ctx, o.ledger, t.config.From, run.Result)
		if err != nil {
			return explain(ctx, "cannot read what a verify of table "+t.config.From+" found", err)
		}
		t.list = found
		if o.ShowValues {
			if err := o.values(ctx, t); err != nil {
				return explain(ctx, "cannot read the values of table "+t.config.From, err)
			}
		}
	}
	return nil
}

// valuesAtOnce is how many rows are looked at together for their values.
const valuesAtOnce = 100

// values looks at the rows of findings again, for the values of their columns.
func (o *Operator) values(ctx context.Context, t *table) error {
	c := &verify.Comparison{Mapping: t.mapping, Source: o.source.Tables, Target: o.target.Data, Owned: t.config.Owned || t.state.MadeByUs}
	for batch := range slices.Chunk(t.list, valuesAtOnce) {
		places := make([]verify.Place, len(batch))
		for i, f := range batch {
			places[i] = verify.Place{Table: f.Table, Row: f.Row}
			if f.Keys.Exists() {
				places[i].Keys = append(places[i].Keys, f.Keys)
			}
		}
		looks, err := c.Look(ctx, places...)
		if err != nil {
			return err
		}
		for i := range batch {
			same := slices.IndexFunc(looks[i].Findings, func(now verify.Finding) bool { return now.ID() == batch[i].ID() })
			if same >= 0 {
				batch[i].Columns = looks[i].Findings[same].Columns
			}
		}
	}
	return nil
}

func (o *Operator) write(d *Document) error {
	if o.AsJSON() {
		return o.WriteJSON(d)
	}
	return o.Console.Show(o.Stdout, d.render)
}

// explain makes what failed an error for people.
func explain(ctx context.Context, what string, err error) error {
	var refused *checkpoint.LoadError
	var late *verify.NotApplied
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return &diag.Error{Code: diag.VerifyRefused, What: what, Cause: refused.Reason, Fix: refused.Cure, Err: err}
	case errors.As(err, &late):
		return &diag.Error{Code: diag.VerifyWaits, What: what, Cause: late.Error(), Err: err}
	}
	if ctx.Err() != nil {
		return terminal.Ended(ctx)
	}
	return preflight.Explain(what, err)
}
