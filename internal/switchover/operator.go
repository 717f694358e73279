package switchover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/standing"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Operator runs the commands of a cutover for an operator.
type Operator struct {
	*terminal.Console
	Cfg     *config.Config
	Allowed environment.Allowed
	With    string // flags to append to commands in messages
	Version string
	Select  Selection // the groups of tables on which the command acts
	// ShowKeys makes Show read the keys of items that were changed after the freeze. Show reads
	// them from the streams.
	ShowKeys bool
	// Confirm asks the operator for confirmation. Only the answer "yes" confirms. Confirm is nil if
	// there is no terminal.
	Confirm func(ctx context.Context, question string) error

	// Ends opens both databases. If it is zero, the databases of the configuration are opened.
	Ends desk.Ends

	*desk.Migration // nil before the migration is open
	reaching        sync.Mutex

	// reach returns the Ends of an open migration; if it is nil, EndsOf is used. parse returns the
	// hooks; if it is nil, Hooks is used.
	reach func(m *desk.Migration) Ends
	parse func(cfg *config.Config) (cutover.Hooks, error)
}

// configs returns the configurations of the tables.
func (o *Operator) configs() (out []config.Table) {
	for _, t := range o.Tables {
		out = append(out, t.Config)
	}
	return out
}

// open opens the migration for a command.
func (o *Operator) open(ctx context.Context, command string) (err error) {
	o.Migration, err = o.Ends.Open(ctx, o.Console, o.Cfg, desk.Request{Command: command, Allowed: o.Allowed, With: o.With, Version: o.Version})
	return err
}

// signed wraps a change of the record. The wrapped change also adds the operator's name to its new
// lines in the timeline.
func (o *Operator) signed(change func(c *checkpoint.Cutover) error) func(c *checkpoint.Cutover) error {
	return func(c *checkpoint.Cutover) error {
		before := len(c.Timeline)
		err := change(c)
		if err == nil && len(c.Timeline) != before {
			c.Sign(terminal.Caller())
		}
		return err
	}
}

// ends returns the Ends for a driver in this process.
func (o *Operator) ends() Ends {
	if o.reach != nil {
		return o.reach(o.Migration)
	}
	return EndsOf(o.Cfg, o.Ledger, o.Source, o.Target, o.Version)
}

// document reads the state of the cutover of a group. If `plan` is not nil, the document also has the
// gates, judged for a cutover with that plan, and the ways back.
func (o *Operator) document(ctx context.Context, g group, plan *checkpoint.CutoverPlan, back []preflight.WayBack) (*Document, error) {
	what := "cannot read the ledger in table " + o.Cfg.State.Table
	in, err := o.input(ctx, g)
	if err != nil {
		return nil, err
	}
	if plan != nil {
		if in.gates, err = Driver(o.ends(), nil).Gates(ctx, *plan, o.Now(ctx)); err != nil {
			return nil, explain(ctx, what, err)
		}
		in.wayBack = shown(back)
		in.mayBeQuiet = in.record.MayBeQuiet || o.mayBeQuiet(ctx, *plan)
		if in.forecast, err = o.foretell(ctx, g, *plan, in.record, in.mayBeQuiet); err != nil {
			return nil, explain(ctx, what, err)
		}
	}
	return judge(in, o.Now(ctx)), nil
}

// input reads what a document shows of a group, with the gates of the latest attempt.
func (o *Operator) input(ctx context.Context, g group) (in input, err error) {
	in = input{cfg: o.Cfg, group: g, tables: g.Tables, with: o.with(g)}
	if in.record, err = o.asOfNow(ctx, g); err != nil {
		return in, err
	}
	latest := in.record.Latest()
	in.gates = latest.Gates
	if latest.Step.Active() {
		in.driver, err = status.Drives(ctx, o.Ledger, in.record.Row, o.Ledger.NewWatch())
	}
	if err == nil {
		in.idle, err = o.idle(ctx)
	}
	if err == nil && in.record.HasFallback() {
		d := Driver(o.ends(), nil)
		if in.fallbacks, err = o.Ledger.Fallbacks(ctx, in.record.Tables); err == nil {
			in.canRollBack, err = d.RollbackGatesOf(ctx, in.record, checkpoint.CutoverPlan{}, o.Now(ctx))
		}
	}
	return in, explain(ctx, "cannot read the ledger in table "+o.Cfg.State.Table, err)
}

// mayBeQuiet reports whether the application may promise, when it is frozen, that its own writes
// have ended. It probes the hook only if the application also writes the target.
func (o *Operator) mayBeQuiet(ctx context.Context, plan checkpoint.CutoverPlan) bool {
	if plan.UnlessQuiet == 0 {
		return false
	}
	hooks, err := o.hooks(true)
	if err != nil || hooks == nil {
		return false // start reports it
	}
	return Driver(o.ends(), hooks).MayBeQuiet(ctx, checkpoint.Cutover{CutoverPlan: plan})
}

// idle returns the number of workers that run and are idle.
func (o *Operator) idle(ctx context.Context) (n int, err error) {
	processes, err := o.Ledger.Processes(ctx)
	for _, p := range processes {
		if p.Role == checkpoint.RoleIdle && standing.Answers(p.Heartbeat, o.Now(ctx), o.Cfg.State.Lease) {
			n++
		}
	}
	return n, err
}

func (o *Operator) write(d *Document, whole bool) error {
	if o.AsJSON() {
		return o.WriteJSON(d)
	}
	return o.Console.Show(o.Stdout, func(w io.Writer) error { return d.render(w, whole) })
}

// Check writes the gates and the state of the cutover. If a gate is not ready, Check fails with
// CutoverNotReady. Once the tables are cut over, it no longer fails.
func (o *Operator) Check(ctx context.Context) error {
	if err := o.open(ctx, "cutover check"); err != nil {
		return err
	}
	defer o.Close()
	groups, err := o.toShow()
	if err != nil {
		return err
	}
	for _, g := range groups {
		err = errors.Join(err, o.checkOne(ctx, g))
	}
	if len(groups) > 1 {
		o.warnOfTokens(ctx, groups[0])
	}
	return err
}

// warnOfTokens names the hooks that may keep one token for all groups.
func (o *Operator) warnOfTokens(ctx context.Context, g group) {
	hooks, err := o.hooks(true)
	if err != nil || hooks == nil {
		return // start reports it
	}
	d := Driver(o.ends(), hooks)
	for _, name := range d.WithoutGroups(ctx, checkpoint.Cutover{CutoverPlan: checkpoint.CutoverPlan{Group: g.Name, Tables: sourcesOf(g.Tables)}}) {
		_, _ = fmt.Fprintf(o.Stderr, "hook %s: its probe does not print `groups`. A hook that compares tokens across groups would refuse the second group; keep the highest token of each CUTOVER_GROUP\n", name)
	}
}

// checkOne writes the gates and the state of the cutover of a group.
func (o *Operator) checkOne(ctx context.Context, g group) error {
	c := g.record
	r := Request{}
	if o.Cfg.Cutover.KeepFallback {
		r.KeepFallback = "yes"
	}
	plan := planOf(o.Cfg, g.Group, r, o.Now(ctx))
	if !c.Step.Over() {
		plan.Overrides = c.Overrides
	}
	asked := &plan
	// The streams are no longer read, so gates cannot be judged.
	if c.Step.Switched() || c.Step == checkpoint.CutoverSwitching {
		asked = nil
	}
	var back []preflight.WayBack
	if asked != nil {
		var err error
		if back, err = o.wayBack(ctx, g, plan.KeepFallback); err != nil {
			return err
		}
	}
	d, err := o.document(ctx, g, asked, back)
	if err != nil {
		return err
	}
	if err := o.write(d, false); err != nil || asked == nil {
		return err
	}
	if plan.KeepFallback {
		if err := o.keepFallback(g, back, &plan); err != nil {
			return err
		}
	}
	if err := o.freezable(ctx, g); err != nil {
		return err
	}
	return d.verdict(o.with(g))
}

// verdict returns the error for gates that are not ready; nil if all gates are ready.
func (d *Document) verdict(with string) error {
	if open := d.open(); len(open) > 0 {
		return &diag.Error{Code: diag.CutoverNotReady, What: fmt.Sprintf("the cutover is not ready: %s of %s", terminal.Plural(len(open), "gate"), d.named()),
			Cause: "not met: " + fmt.Sprint(open), Fix: "run the command next to each, then: replicator cutover check" + with}
	}
	return nil
}

// Show writes the state of a cutover, with its whole timeline.
func (o *Operator) Show(ctx context.Context) error {
	if err := o.open(ctx, "cutover status"); err != nil {
		return err
	}
	defer o.Close()
	if o.Ledger == nil {
		return o.show(judge(input{cfg: o.Cfg, group: group{alone: true}, with: o.With}, o.Now(ctx)))
	}
	groups, err := o.toShow()
	for _, g := range groups {
		var d *Document
		if d, err = o.document(ctx, g, nil, nil); err == nil && o.ShowKeys {
			d.StrayKeys, err = o.strayKeys(ctx, g)
		}
		if err == nil {
			err = o.show(d)
		}
		if err != nil {
			return err
		}
	}
	return err
}

// tablesOf returns the tables of a group that the application still uses.
func (o *Operator) tablesOf(g group) (out []preflight.Table) {
	for _, t := range o.Tables {
		if t.Mapping != nil && slices.ContainsFunc(g.Tables, func(of config.Table) bool { return of.From == t.Config.From }) {
			out = append(out, t)
		}
	}
	return out
}

// strayKeys reads the keys of stragglers from the streams.
func (o *Operator) strayKeys(ctx context.Context, g group) (map[string]json.RawMessage, error) {
	if err := o.Reach(ctx); err != nil {
		return nil, err
	}
	c, err := o.asOfNow(ctx, g)
	if err != nil {
		return nil, err
	}
	items, err := Driver(o.ends(), nil).StrayKeys(ctx, c)
	if err != nil {
		return nil, explain(ctx, "cannot read the keys of changes after the freeze", err)
	}
	keys := map[string]json.RawMessage{}
	for hash, item := range items {
		if keys[hash], err = attribute.MarshalItem(item); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// show writes a document with its timeline.
func (o *Operator) show(d *Document) error {
	if d.Attempt == 0 && !o.AsJSON() {
		text := terminal.NotStarted
		if d.flagged {
			text = "group " + d.Group + ": " + text
		}
		_, err := fmt.Fprintln(o.Stdout, text)
		return err
	}
	return o.write(d, true)
}

// explain converts a failure to an error for the operator.
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
