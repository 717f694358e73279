package switchover

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// finalizeSchema identifies the schema of the document of `finalize -o json`.
const finalizeSchema = "replicator.finalize/v1"

// Finalizing holds the options of a finalize.
type Finalizing struct {
	DryRun, Yes, KeepView bool
	// StraysSeen is the number of changes after the freeze that the operator has examined in the
	// sources.
	StraysSeen int
}

// Finalized lists what was removed, and what the operator should switch off. It is the document of
// `finalize -o json`.
type Finalized struct {
	Schema    string    `json:"schema"`
	Name      string    `json:"name"`
	Group     string    `json:"group"` // the group of tables
	DryRun    bool      `json:"dry_run"`
	Removed   []Removal `json:"removed"`
	SwitchOff []string  `json:"switch_off"`
}

// Removal is a part of replicator's metadata in a target.
type Removal struct {
	Table string `json:"table"`
	Kind  string `json:"kind"` // family or view
	Name  string `json:"name"`
}

// Finalize removes replicator's metadata from the targets of tables that are cut over, and records
// that in the ledger.
func (o *Operator) Finalize(ctx context.Context, f Finalizing) error {
	if err := o.open(ctx, "finalize"); err != nil {
		return err
	}
	defer o.Close()
	groups, err := o.toSteer("finalize", func(c *checkpoint.Cutover) bool { return c.Step == checkpoint.CutoverDone && c.FinalizedAt.IsZero() })
	if err != nil {
		return err
	}
	if len(groups) > 1 {
		return unchosen(groups, "finalize works on one group")
	}
	g := groups[0]
	c, err := o.asOfNow(ctx, g)
	if err != nil {
		return err
	}
	if f.StraysSeen > 0 {
		see := func(c *checkpoint.Cutover) error { return c.See(f.StraysSeen, o.Now(ctx)) }
		if f.DryRun {
			err = see(&c)
		} else {
			c, err = o.Ledger.UpdateCutover(ctx, c.Row, o.signed(see))
		}
		if err != nil {
			return explain(ctx, "cannot finalize "+o.of(g), err)
		}
	}
	if err := o.finalizable(ctx, g, c); err != nil {
		return err
	}
	d := &Finalized{Schema: finalizeSchema, Name: o.Cfg.Name, Group: g.Name, DryRun: f.DryRun, Removed: []Removal{}, SwitchOff: o.switchOff(c)}
	for _, table := range c.Targets {
		families, err := o.ends().Target.ListFamilies(ctx, table)
		if err != nil {
			return explain(ctx, "cannot describe table "+table, err)
		}
		if view := o.Cfg.Target.View; view != "" && !f.KeepView {
			d.Removed = append(d.Removed, Removal{table, "view", view})
		}
		for _, name := range families {
			if sink.IsFence(name) || name == sink.LiveFamily || name == sink.GoneFamily {
				d.Removed = append(d.Removed, Removal{table, "family", name})
			}
		}
	}
	if !f.DryRun {
		if err := o.remove(ctx, d, c.Row, f.Yes); err != nil {
			return err
		}
	}
	if o.AsJSON() {
		return o.WriteJSON(d)
	}
	return d.render(o.Stdout, !f.DryRun)
}

// finalizable returns an error while a process could still write to the targets.
func (o *Operator) finalizable(ctx context.Context, g group, c checkpoint.Cutover) error {
	refuse := func(cause, fix string) error {
		return &diag.Error{Code: diag.FinalizeRefused, What: "the target of " + o.of(g) + " cannot be finalized", Cause: cause, Fix: fix + o.with(g)}
	}
	following, err := o.following(ctx, c)
	if err != nil {
		return err
	}
	switch {
	case c.HasFallback():
		fix := "when you no longer need that: replicator cutover end-fallback"
		if c.Denial.Left {
			fix += ", which also lets the policies of the tables accept writes again;"
		}
		return refuse("DynamoDB follows Bigtable, so that the application can be moved back", fix)
	case following != "":
		return refuse("the fallback of table "+following+" has not stopped yet, and its leader needs the metadata", "let a worker run until it has stopped, or end it with: replicator cutover end-fallback")
	case c.Step == checkpoint.CutoverWatching:
		return refuse("replicator is still watching for late writers until "+c.SwitchedAt.Add(c.WatchFor).UTC().Format("2006-01-02 15:04 MST"), "wait for the end of the watch; replicator cutover status shows it")
	case c.Step != checkpoint.CutoverDone:
		return refuse("the tables are not cut over", "see replicator cutover check")
	case c.Unanswered() > 0:
		return refuse(terminal.Plural(c.Strays, "change")+" in DynamoDB that the target does not have",
			fmt.Sprintf("find the writer, and correct the target; replicator cutover status lists them; then: replicator finalize --strays-seen %d", c.Strays))
	}
	in, err := status.Read(ctx, o.Cfg, o.ends().Target, "")
	if err != nil {
		return err
	}
	m := in.Judge(o.Env, "", o.Now(ctx))
	working := m.Working()
	if !m.Left() { // workers continue with other groups; workers of a version without groups do not see this cutover
		working = m.Outdated()
	}
	if len(working) > 0 {
		return refuse("not idle: "+strings.Join(working, ", ")+". A running worker becomes idle within a minute, unless its version cannot",
			"wait a minute, and stop workers that are still named; then: replicator finalize")
	}
	return nil
}

// following returns a table whose fallback is not stopped; "" if there is none. The fallback of a
// cancelled attempt has never written.
func (o *Operator) following(ctx context.Context, c checkpoint.Cutover) (string, error) {
	for _, table := range c.Tables {
		f, found, err := o.Ledger.Fallback(ctx, table)
		if err != nil {
			return "", explain(ctx, "cannot read the fallback of table "+table, err)
		}
		if found && f.Attempt == c.Attempt && f.State != checkpoint.FallbackStopped {
			return table, nil
		}
	}
	return "", nil
}

// remove removes the metadata that d lists.
func (o *Operator) remove(ctx context.Context, d *Finalized, row string, yes bool) error {
	if !yes {
		if o.Confirm == nil {
			return diag.BadUsage("finalize needs confirmation, but there is no terminal", "add --yes, or see what would be removed with --dry-run")
		}
		if err := d.render(o.Stderr, false); err != nil {
			return err
		}
		if err := o.Confirm(ctx, "Remove this? Readers of a view must read the table first"); err != nil {
			return err
		}
	}
	for _, r := range d.Removed {
		var err error
		if r.Kind == "view" {
			err = o.ends().Target.DropView(ctx, r.Table, r.Name)
		} else {
			err = o.ends().Target.DropOwn(ctx, r.Table, r.Name)
		}
		if err != nil {
			return preflight.ExplainTarget("cannot remove "+r.Kind+" "+r.Name+" of table "+r.Table+"; earlier removals are complete, and finalize can be repeated", err)
		}
	}
	_, err := o.Ledger.UpdateCutover(ctx, row, func(c *checkpoint.Cutover) error { return c.Finalized(o.Now(ctx)) })
	return explain(ctx, "cannot record in the ledger that "+o.Cfg.Name+" is finalized", err)
}

// switchOff lists resources that are no longer needed, but that only the operator can remove.
func (o *Operator) switchOff(c checkpoint.Cutover) (list []string) {
	list = append(list, "the workers: remove them from their deployment")
	for _, t := range c.Tables {
		list = append(list, "the stream of table "+t+"; switch it off with: aws dynamodb update-table --table-name "+t+" --stream-specification StreamEnabled=false")
	}
	for _, t := range c.Tables {
		keep := "back it up first with: aws dynamodb create-backup --table-name " + t + " --backup-name before-removal"
		if c.KeepFallback {
			keep = "you chose to keep a fallback; delete it only when you are sure"
		}
		list = append(list, "table "+t+" of DynamoDB; "+keep)
	}
	if c.KeepFallback {
		for _, t := range c.Targets {
			list = append(list, "the change stream of table "+t+" of Bigtable; switch it off with: gcloud bigtable instances tables update "+t+" --instance="+o.Cfg.Target.Instance+" --project="+o.Cfg.Target.Project+" --clear-change-stream-retention-period")
		}
	}
	if c.Denial.Left {
		for _, t := range c.Tables {
			list = append(list, "the statement ReplicatorFreeze... in the resource policy of table "+t+", which may still deny writes; see: aws dynamodb get-resource-policy")
		}
	}
	list = append(list, "the role and policy that read DynamoDB and wrote canaries")
	if c.ByPolicy {
		list = append(list, "the probe's role "+o.Cfg.Cutover.ProbeRole)
	}
	if o.Cfg.Relay.Topic != "" {
		list = append(list, "topic "+o.Cfg.Relay.Topic+" and its subscriptions")
	}
	return append(list, "the hooks of the cutover; the state table "+o.Cfg.State.Table+" stays: its record stops a forgotten worker from writing")
}

// render writes the list of the metadata that was removed, or that would be removed.
func (d *Finalized) render(w io.Writer, removed bool) error {
	var b strings.Builder
	head := "Would be removed"
	if removed {
		head = "Removed"
	}
	fmt.Fprintln(&b, head)
	for _, r := range d.Removed {
		fmt.Fprintf(&b, "  - %s %s of table %s\n", r.Kind, r.Name, r.Table)
	}
	if len(d.Removed) == 0 {
		fmt.Fprintln(&b, "  nothing: everything is already removed")
	}
	fmt.Fprintln(&b, "\nDecommission yourself")
	for _, s := range d.SwitchOff {
		fmt.Fprintln(&b, "  "+s)
	}
	_, err := fmt.Fprint(w, b.String())
	return err
}
