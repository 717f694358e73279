package loads

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Schema describes the document of -o json.
//
//go:embed backfill.schema.json
var Schema []byte

// Operator runs a command that shows or controls loads.
type Operator struct {
	*terminal.Console
	Cfg     *config.Config
	Allowed environment.Allowed
	With    string // flags to append to commands in messages
	Table   string // the table; "" for all tables
	DryRun  bool
	Yes     bool
	Waits   bool
	// Confirm asks the operator for confirmation. Only the answer "yes" confirms. Confirm is nil if
	// there is no terminal.
	Confirm func(ctx context.Context, question string) error
	Ends    desk.Ends
}

// Show writes the state of the loads.
func (o *Operator) Show(ctx context.Context) error {
	m, in, err := o.open(ctx, "backfill status")
	if err != nil {
		return err
	}
	defer m.Close()
	if err := o.write(in.judge(cost.Default(), o.With, m.Now(ctx))); err != nil || !o.Waits {
		return err
	}
	return in.wait(ctx, m, o.Console, o.With)
}

// Steer carries out a request. With DryRun, it only writes the effect that the request would have.
func (o *Operator) Steer(ctx context.Context, r Request) error {
	r.Approve = o.Yes
	if (r.Action == ActionRedo || r.Action == ActionCancel) && !o.Yes && !o.DryRun && o.Confirm == nil {
		return diag.BadUsage("replicator backfill "+r.Action+" needs confirmation, but there is no terminal", "add --yes")
	}
	m, in, err := o.open(ctx, r.command())
	if err != nil {
		return err
	}
	defer m.Close()
	if len(r.From) > 0 && in.Tables[0].Found {
		if r.Wish {
			r.wish, err = o.prepareExport(ctx, m, in, r)
		} else {
			r.named, err = o.readImages(ctx, m, in, r)
		}
		if err != nil {
			return err
		}
	}
	if o.DryRun {
		return o.rehearse(ctx, m, in, r)
	}
	if r.Approve, err = o.confirm(ctx, in, r); err != nil {
		return err
	}
	decided := in.decideAll(r)
	if err := o.warnOfShares(ctx, m, r, decided); err != nil {
		return err
	}
	if err := in.carryOut(ctx, r, decided); err != nil {
		return err
	}
	d := in.judge(cost.Default(), o.With, m.Now(ctx))
	d.Decided = decided
	if err := o.write(d); err != nil {
		return err
	}
	if refused := refused(decided, o.Table == ""); refused != nil || !o.Waits {
		return shown(refused)
	}
	return in.wait(ctx, m, o.Console, o.With)
}

// Shown is an error that the document on stdout already describes.
type Shown struct{ error }

func (t Shown) Unwrap() error { return t.error }

func shown(err error) error {
	if err == nil {
		return nil
	}
	return Shown{err}
}

// command returns the name of the command that makes the request.
func (r Request) command() string {
	if r.Action == ActionThrottle {
		return ActionThrottle
	}
	return "backfill " + r.Action
}

// open opens the migration for a command, and reads its loads.
func (o *Operator) open(ctx context.Context, command string) (*desk.Migration, *Input, error) {
	m, err := o.Ends.Open(ctx, o.Console, o.Cfg, desk.Request{Command: command, Table: o.Table, Allowed: o.Allowed, With: o.With})
	if err != nil {
		return nil, nil, err
	}
	in, err := read(ctx, o.Cfg, m.Ledger, m.Tables)
	if err != nil {
		return nil, nil, errors.Join(err, m.Close())
	}
	in.left = m.Left()
	return m, in, nil
}

func (o *Operator) write(d *Document) error {
	if o.AsJSON() {
		return o.WriteJSON(d)
	}
	return o.Console.Show(o.Stdout, d.render)
}

// rehearse writes the effect that the request would have, and the estimate of its load.
func (o *Operator) rehearse(ctx context.Context, m *desk.Migration, in *Input, r Request) error {
	decided := in.decideAll(r)
	if err := o.warnOfShares(ctx, m, r, decided); err != nil {
		return err
	}
	prices := cost.Default()
	if r.named == nil && r.wish == nil && slices.ContainsFunc(decided, func(d Decided) bool { return d.Action == ActionStart || d.Action == ActionRedo }) {
		if err := in.estimateAll(ctx, m, prices, r, decided); err != nil {
			return err
		}
	}
	d := in.judge(prices, o.With, m.Now(ctx))
	d.DryRun, d.Decided = true, decided
	if err := o.write(d); err != nil {
		return err
	}
	return shown(refused(decided, o.Table == ""))
}

// confirm asks for confirmation of a request that ends a generation. It also asks before a sweep
// may remove rows from a target that this program did not create.
func (o *Operator) confirm(ctx context.Context, in *Input, r Request) (approved bool, err error) {
	if o.Yes {
		return true, nil
	}
	for _, t := range in.Tables {
		question := ""
		switch {
		case r.Action == ActionRedo && t.Found:
			question = fmt.Sprintf("Load all of table %s again? The table is not in sync until the load and its sweep are complete.", t.Config.From)
		case r.Action == ActionCancel && standing.LoadOf(t.State, false).UnderWay:
			question = fmt.Sprintf("Cancel the load of table %s? The next load copies everything again, and you must start it.", t.Config.From)
		case r.Action == ActionResume && standing.LoadOf(t.State, false).State == standing.LoadApproval:
			c := t.State.Load.Sweep.Counts
			question = fmt.Sprintf("Sweep the target of table %s? The sweep writes %s and removes %s.", t.Config.From, rows(c.Put), rows(c.Removed))
			approved = true
		}
		if question == "" {
			continue
		}
		if o.Confirm == nil {
			return false, diag.BadUsage("the sweep of table "+t.Config.From+" needs confirmation, but there is no terminal", "check `replicator backfill status`, then add --yes")
		}
		if err := o.Confirm(ctx, question); err != nil {
			return false, err
		}
	}
	return approved, nil
}
