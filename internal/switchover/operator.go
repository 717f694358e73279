package switchover

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// Operator is somebody at a machine who cuts tables over.
type Operator struct {
	*terminal.Console
	Cfg     *config.Config
	Allowed config.Allowed
	With    string // flags of the commands that are named
	Version string
	// Confirm asks a question that only yes answers; nil: nobody can be asked.
	Confirm func(ctx context.Context, question string) error

	target *preflight.Target
	source *preflight.Source
	ledger *checkpoint.Ledger
	tables []table
}

// table is one table that is cut over.
type table struct {
	config  config.Table
	mapping *transform.Mapping // nil unless the source was asked
}

// configs are the tables' configurations.
func (o *Operator) configs() (out []config.Table) {
	for _, t := range o.tables {
		out = append(out, t.config)
	}
	return out
}

// open opens the target and reads the ledger, and with source asks the source for its tables.
func (o *Operator) open(ctx context.Context, source bool) error {
	if err := config.CheckEnvironment(o.Env, o.Allowed).Err(); err != nil && source {
		return err
	}
	var err error
	if o.target, err = preflight.OpenTarget(ctx, o.Cfg); err != nil {
		return err
	}
	if host, _ := o.Env("BIGTABLE_EMULATOR_HOST"); host != "" {
		_, _ = fmt.Fprintf(o.Stderr, "%s EMULATOR at %s\n", preflight.TargetName(o.Cfg), host)
	}
	if err = o.read(ctx); err == nil && source {
		err = o.connect(ctx)
	}
	if err != nil {
		return errors.Join(err, o.target.Close())
	}
	return nil
}

// errNotStarted is in the error of a migration that has no ledger yet.
var errNotStarted = errors.New(terminal.NotStarted)

// read opens the ledger, and reads which tables it has.
func (o *Operator) read(ctx context.Context) error {
	limited, cancel := preflight.Reading(ctx)
	defer cancel()
	what := "cannot read the ledger in table " + o.Cfg.State.Table
	ledger, err := preflight.OpenLedger(limited, preflight.LedgerStore(o.target, o.Cfg), o.Cfg, "cutover", o.Version)
	if ledger == nil && err == nil {
		return &diag.Error{Code: diag.CutoverRefused, What: "there is no migration to cut over", Cause: "no ledger of the name " + o.Cfg.Name + " is in table " + o.Cfg.State.Table, Err: errNotStarted,
			Fix: "start `replicator run`, and cut over when `replicator status` shows the tables in sync"}
	}
	if err == nil {
		err = preflight.SameCluster(limited, ledger, o.target.Cluster)
	}
	if err != nil {
		return preflight.ReadingFailed(limited, what, err)
	}
	o.ledger = ledger
	tables, err := preflight.LedgerTables(limited, o.Cfg, ledger, "")
	if err != nil {
		return preflight.ReadingFailed(limited, what, err)
	}
	o.tables = nil
	for _, t := range tables {
		o.tables = append(o.tables, table{config: t})
	}
	return nil
}

// connect asks the source for the tables: for their keys, and for its time.
func (o *Operator) connect(ctx context.Context) error {
	src, err := preflight.ConnectSource(ctx, o.Cfg)
	if err != nil {
		return err
	}
	o.source = src
	for i := range o.tables {
		found, err := preflight.DescribeTable(ctx, src.Tables, o.tables[i].config)
		if err != nil {
			return err
		}
		o.tables[i].mapping = found.Mapping
		o.ledger.Heard(ctx, found.Description.At)
	}
	return nil
}

// now is the source's time, or this machine's where that is not known.
func (o *Operator) now(ctx context.Context) time.Time {
	if at := o.ledger.ServiceTime(ctx); !at.IsZero() {
		return at
	}
	return task.Now(ctx)
}

func (o *Operator) ends() Ends { return Ends{o.Cfg, o.ledger, o.source, o.target} }

// document reads where the cutover stands; with gates it judges those that it would begin with.
func (o *Operator) document(ctx context.Context, plan *checkpoint.CutoverPlan) (*Document, error) {
	what := "cannot read the ledger in table " + o.Cfg.State.Table
	in := input{cfg: o.Cfg, tables: o.configs(), with: o.With}
	var err error
	if in.record, err = o.ledger.Cutover(ctx); err != nil {
		return nil, explain(ctx, what, err)
	}
	if plan != nil {
		if in.gates, err = Driver(o.ends(), nil).Gates(ctx, *plan, o.now(ctx)); err != nil {
			return nil, explain(ctx, what, err)
		}
		in.wayBack = wayBack(o.tables)
	} else if in.record.Attempt > 0 {
		in.gates = in.record.Gates
	}
	seat, err := o.ledger.KeeperLease(ctx, checkpoint.CutoverSeat)
	if err != nil {
		return nil, explain(ctx, what, err)
	}
	if fresh := o.now(ctx).Sub(seat.Heartbeat().WrittenAt) <= 2*o.Cfg.State.Lease; fresh {
		in.driver = seat.Owner()
	}
	return judge(in, o.now(ctx)), nil
}

func (o *Operator) write(d *Document, whole bool) error {
	if o.AsJSON() {
		return o.WriteJSON(d)
	}
	return o.Console.Show(o.Stdout, func(w io.Writer) error { return d.render(w, whole) })
}

// Check writes the gates, and where a cutover stands. It fails with CutoverNotReady unless every
// gate is ready, or the tables are cut over already.
func (o *Operator) Check(ctx context.Context) error {
	if err := o.open(ctx, true); err != nil {
		return err
	}
	defer o.target.Close()
	c, err := o.ledger.Cutover(ctx)
	if err != nil {
		return explain(ctx, "cannot read the ledger in table "+o.Cfg.State.Table, err)
	}
	plan := planOf(o.Cfg, o.configs(), Request{}, o.now(ctx))
	if !c.Step.Over() {
		plan.Overrides = c.Overrides
	}
	asked := &plan
	if c.Step.Switched() || c.Step == checkpoint.CutoverSwitching { // nobody reads the streams any more
		asked = nil
	}
	d, err := o.document(ctx, asked)
	if err != nil {
		return err
	}
	if err := o.write(d, false); err != nil || asked == nil {
		return err
	}
	return d.verdict(o.With)
}

// verdict is the error of gates that are not ready; nil if all are.
func (d *Document) verdict(with string) error {
	if open := d.open(); len(open) > 0 {
		return &diag.Error{Code: diag.CutoverNotReady, What: fmt.Sprintf("the cutover is not ready: %s of %s", terminal.Plural(len(open), "gate"), d.Name),
			Cause: "they are shown above: " + fmt.Sprint(open), Fix: "run the commands beside them, then: replicator cutover check" + with}
	}
	return nil
}

// Show writes where a cutover stands, with everything that happened.
func (o *Operator) Show(ctx context.Context) error {
	err := o.open(ctx, false)
	if errors.Is(err, errNotStarted) {
		return o.show(judge(input{cfg: o.Cfg, with: o.With}, task.Now(ctx)))
	}
	if err != nil {
		return err
	}
	defer o.target.Close()
	d, err := o.document(ctx, nil)
	if err != nil {
		return err
	}
	return o.show(d)
}

// show writes a document with its timeline.
func (o *Operator) show(d *Document) error {
	if d.Attempt == 0 && !o.AsJSON() {
		_, err := fmt.Fprintln(o.Stdout, terminal.NotStarted)
		return err
	}
	return o.write(d, true)
}

// explain makes what failed an error for people.
func explain(ctx context.Context, what string, err error) error {
	var refused *checkpoint.CutoverError
	var hook *cutover.HookError
	var told *diag.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &told):
		return err
	case errors.As(err, &refused):
		return &diag.Error{Code: diag.CutoverRefused, What: err.Error(), Fix: refused.Cure, Err: err}
	case errors.As(err, &hook):
		return &diag.Error{Code: diag.HookFailed, What: "hook " + hook.Hook + " cannot be called", Cause: string(hook.Outcome) + ": " + hook.Output, Err: err}
	}
	if ctx.Err() != nil {
		return terminal.Ended(ctx)
	}
	return preflight.Explain(what, err)
}
