package comparison

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/repair"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// Operator runs a command that verifies tables.
type Operator struct {
	*terminal.Console
	Cfg     *config.Config
	Allowed environment.Allowed
	With    string // flags to append to commands in messages
	Table   string // the table to verify; "" for all tables
	// Sample is the share of the items to compare; 0 means all items. ChangedSince limits the
	// comparison to rows that changed within that time; 0 means all rows.
	Sample       float64
	ChangedSince time.Duration
	// ShowValues shows keys and values of differing rows.
	ShowValues bool
	// Keys and KeysFile choose single items to compare, by their primary keys in JSON. KeysFile is
	// the path of a file with one key in each line; "-" means Stdin. If both are empty, whole tables
	// are compared.
	Keys     []string
	KeysFile string
	Stdin    io.Reader // if nil, the process's stdin
	// InFlight compares only rows that stayed in flight in the last verify.
	InFlight bool
	// Waits makes this process compare parts until the verify has ended. Without Waits, only
	// workers compare parts.
	Waits bool
	// Repair fixes the differences that a comparison found. With DryRun, the command only shows
	// what a repair would do.
	Repair, DryRun bool
	// AtMost is the maximum number of rows of a table that a repair may change. If more rows differ,
	// none of the table is repaired. 0 means no limit.
	AtMost int
	// RemoveForeign lets a repair remove extra rows without proof that this migration wrote them.
	RemoveForeign bool
	// Reverse compares items with their rows, after a cutover with a way back. With Repair, the
	// leader of the way back makes differing items equal to their rows.
	Reverse bool
	// Report is the path of a file with a line for each difference; "" for no file. An HTML page is
	// written next to the file.
	Report string
	// Log receives a line when a repair ends. If it is nil, no line is written.
	Log *slog.Logger
	// Patience is how long to wait until the changes from before the comparison are applied; 0
	// means two minutes.
	Patience time.Duration

	// Ends opens both databases. If it is zero, the databases of the configuration are opened.
	Ends desk.Ends

	// reach returns the clients of a migration. If it is nil, endsOf is used.
	reach     func(m *desk.Migration) ends
	migration *desk.Migration
	ends      ends
	ledger    *checkpoint.Ledger // the migration's ledger
	tracer    engine.Tracer      // nil if no traces are exported
	tables    []table
}

// table is one table to verify.
type table struct {
	config   config.Table
	found    bool
	state    checkpoint.TableState
	parts    []checkpoint.Part
	mapping  *transform.Mapping // nil unless the source was read
	bytes    int64
	items    int64
	capacity int64 // provisioned read units per second; 0 if the table is billed per request
	list     []verify.Finding
	unread   int              // number of findings that this version cannot parse
	repaired *repair.Document // nil if nothing was repaired
	fallback checkpoint.Fallback
	reversed *reversed // nil if this command compared no items with their rows
	keyed    *keyed    // nil if this command compared no single items
}

// lists reports whether the last verify recorded any rows. It records rows that differ, and rows
// that stayed in flight.
func (t *table) lists() bool {
	run := t.state.Verify
	return !run.Running() && run.Result.Known() && !run.Result.Clean()
}

// patience is how long a command waits until the changes from before the comparison are applied.
// The wait is limited because there may be no worker to apply them.
const patience = 2 * time.Minute

// Show writes the state of the verifies, and the findings of the last verifies.
func (o *Operator) Show(ctx context.Context) error {
	if err := o.open(ctx, "verify status"); err != nil {
		return err
	}
	defer o.migration.Close()
	if o.ledger == nil {
		return o.write(o.judge(o.now(ctx)))
	}
	lists := func(t table) bool { return t.lists() }
	// Findings are shown by keys. To derive the keys, the mapping needs the source's key schema.
	if slices.ContainsFunc(o.tables, lists) {
		if err := o.connect(ctx); err != nil {
			return err
		}
		if err := o.findings(ctx); err != nil {
			return err
		}
	}
	return o.write(o.judge(o.now(ctx)))
}

// The steps that Steer accepts.
const (
	Pause  = "pause"
	Resume = "resume"
	Cancel = "cancel"
)

// Steer pauses, resumes or cancels the running verifies.
func (o *Operator) Steer(ctx context.Context, step string) error {
	if err := o.open(ctx, "verify "+step); err != nil {
		return err
	}
	defer o.migration.Close()
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
		return &diag.Error{Code: diag.VerifyRefused, What: "there is no verify to " + step, Cause: "no verify is running", Fix: "begin one with replicator verify" + o.With}
	}
	return o.write(o.judge(o.now(ctx)))
}

// open opens the migration for a command, and reads its verifies.
func (o *Operator) open(ctx context.Context, command string) (err error) {
	r := desk.Request{Command: command, Table: o.Table, Allowed: o.Allowed, With: o.With}
	if o.migration, err = o.Ends.Open(ctx, o.Console, o.Cfg, r); err != nil {
		return err
	}
	o.ledger = o.migration.Ledger
	o.tables = make([]table, len(o.migration.Tables))
	for i, t := range o.migration.Tables {
		o.tables[i].config = t.Config
		o.tables[i].state.Source = t.Config.From
	}
	o.reached()
	reading, cancel := preflight.Reading(ctx)
	defer cancel()
	if err := o.refresh(reading); err != nil {
		err = preflight.ReadingFailed(reading, "cannot read the ledger in table "+o.Cfg.State.Table, err)
		return errors.Join(err, o.migration.Close())
	}
	return nil
}

// now returns the current time, which decides whether results are stale.
func (o *Operator) now(ctx context.Context) time.Time { return o.migration.Now(ctx) }

// reached keeps the clients of both databases, and the source's descriptions of the tables.
func (o *Operator) reached() {
	reach := o.reach
	if reach == nil {
		reach = endsOf
	}
	o.ends = reach(o.migration)
	for i, found := range o.migration.Tables {
		t := &o.tables[i]
		t.mapping, t.bytes, t.items, t.capacity = found.Mapping, found.Description.Bytes, found.Description.Items, found.Description.ReadCapacity
	}
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
		if t.fallback, _, err = o.ledger.Fallback(ctx, t.config.From); err != nil {
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

// connect reads the descriptions of the tables from the source, because mappings need their keys.
func (o *Operator) connect(ctx context.Context) error {
	err := o.migration.Connect(ctx)
	o.reached()
	return err
}

// findings reads the findings of the last verifies. With ShowValues, it also reads the items and
// rows again for their values.
func (o *Operator) findings(ctx context.Context) error {
	for i := range o.tables {
		t := &o.tables[i]
		run := t.state.Verify
		if !t.lists() || t.mapping == nil {
			continue
		}
		found, err := verify.Findings(ctx, o.ledger, t.config.From, run.Result)
		var unread *verify.UnreadableError
		switch {
		case errors.As(err, &unread): // the other findings are still shown
			t.unread = unread.Findings
			_, _ = fmt.Fprintf(o.Stderr, "%s: %s\n", t.config.From, err)
		case err != nil:
			return explain(ctx, "cannot read the findings of the verify of table "+t.config.From, err)
		}
		t.list = found
		if err := o.shownValues(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// shownValues reads the values of a table's findings, if the operator asked for them.
func (o *Operator) shownValues(ctx context.Context, t *table) error {
	if !o.ShowValues {
		return nil
	}
	if err := o.values(ctx, t); err != nil {
		return explain(ctx, "cannot read the values of table "+t.config.From, err)
	}
	return nil
}

// valuesAtOnce is the number of rows that are read together for their values.
const valuesAtOnce = 100

// values reads the items and rows of findings again, to show the values of their columns.
func (o *Operator) values(ctx context.Context, t *table) error {
	c := &verify.Comparison{Mapping: t.mapping, Source: o.ends.source, Target: o.ends.target, Owned: t.config.Owned || t.state.MadeByUs}
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
				batch[i].Columns, batch[i].More = looks[i].Findings[same].Columns, 0
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

// explain turns a failure into an error for people.
func explain(ctx context.Context, what string, err error) error {
	var refused *checkpoint.LoadError
	var late *verify.NotApplied
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return &diag.Error{Code: diag.VerifyRefused, What: what, Cause: refused.Reason, Fix: refused.Cure, Err: err}
	case errors.As(err, &late):
		return &diag.Error{Code: diag.VerifyWaits, Exit: diag.ExitTimeout, What: what, Cause: late.Error(), Err: err}
	}
	if ctx.Err() != nil {
		return terminal.Ended(ctx)
	}
	return preflight.Explain(what, err)
}
