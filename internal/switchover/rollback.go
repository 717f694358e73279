package switchover

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/readiness"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// Undoing holds an operator's options for a rollback.
type Undoing struct {
	DryRun    bool // only the gates and a probe of the hooks
	Yes       bool
	Overrides []string
	Reason    string // reason for the overrides
	Wait      bool
}

func (u *Undoing) check() error {
	if err := checkReason(u.Overrides, u.Reason); err != nil {
		return err
	}
	if slices.ContainsFunc(u.Overrides, func(gate string) bool { return gate != readiness.GateCarried }) {
		return diag.BadUsage("a rollback can only override the gate "+readiness.GateCarried, "remove the other gates; replicator cutover status shows what helps")
	}
	return nil
}

// Rollback moves the application back to the source, and shows the progress.
func (o *Operator) Rollback(ctx context.Context, u Undoing) error {
	if err := u.check(); err != nil {
		return err
	}
	if !o.Cfg.Cutover.RollbackHooks.Given() && o.parse == nil {
		return &diag.Error{Code: diag.MissingValue, What: "cutover.rollback_hooks are missing", Cause: "a rollback needs them to freeze the application and to move it back", Fix: "add them to the configuration of the workers and of this command"}
	}
	hooks, err := o.hooks(false)
	if err != nil {
		return err
	}
	if err := o.open(ctx, "cutover rollback"); err != nil {
		return err
	}
	defer o.Close()
	groups, err := o.toSteer("roll back", func(c *checkpoint.Cutover) bool { return c.HasFallback() && !c.RollingBack() })
	if err != nil {
		return err
	}
	plans := make([]checkpoint.CutoverPlan, len(groups))
	for i, g := range groups {
		if plans[i], err = o.proposeRollback(ctx, g, u); err != nil {
			return err
		}
	}
	if u.DryRun {
		return o.probeRollback(ctx, groups, hooks)
	}
	if !u.Yes {
		if o.Confirm == nil {
			return diag.BadUsage("a rollback needs confirmation, but there is no terminal", "add --yes")
		}
		if err := o.Confirm(ctx, "Stop the application's writes, and move it back to DynamoDB? Another cutover then begins with a load"); err != nil {
			return err
		}
	}
	for i, g := range groups {
		start := o.signed(func(c *checkpoint.Cutover) error { return c.StartRollback(plans[i], o.Now(ctx)) })
		if _, err := o.Ledger.UpdateCutover(ctx, g.record.Row, start); err != nil {
			return explain(ctx, "cannot roll back "+o.of(g), err)
		}
	}
	if !u.Wait {
		return o.shown(ctx, groups)
	}
	return o.follow(ctx, groups, hooks, true, checkpoint.Back)
}

// proposeRollback returns the plan of the rollback of a group, and shows its gates. It refuses an
// impossible request before it asks the operator.
func (o *Operator) proposeRollback(ctx context.Context, g group, u Undoing) (plan checkpoint.CutoverPlan, err error) {
	now := o.Now(ctx)
	plan = checkpoint.CutoverPlan{Direction: checkpoint.Back, Version: o.Version, By: o.Ledger.Worker(), After: o.Cutovers().Last(),
		FreezeWithin: o.Cfg.FreezeWithin(), FreezeDeadline: o.Cfg.Cutover.RollbackDeadline, WatchFor: o.Cfg.Cutover.WatchFor}
	for _, gate := range u.Overrides {
		plan.Overrides = append(plan.Overrides, checkpoint.CutoverOverride{Gate: gate, Reason: u.Reason})
	}
	c, err := o.asOfNow(ctx, g)
	if err != nil {
		return plan, err
	}
	probe := c
	if err := probe.StartRollback(plan, now); err != nil {
		return plan, explain(ctx, "cannot roll back "+o.of(g), err)
	}
	in, err := o.input(ctx, g)
	if err != nil {
		return plan, err
	}
	if in.gates, err = Driver(o.ends(), nil).RollbackGatesOf(ctx, c, plan, now); err != nil {
		return plan, explain(ctx, "cannot read the ledger in table "+o.Cfg.State.Table, err)
	}
	d := judge(in, now)
	switch {
	case u.DryRun:
		err = o.write(d, false)
	case !o.AsJSON():
		err = o.Console.Show(o.Stderr, func(w io.Writer) error { return d.render(w, false) })
	}
	if err != nil {
		return plan, err
	}
	if open := d.open(); len(open) > 0 {
		return plan, &diag.Error{Code: diag.CutoverNotReady, What: fmt.Sprintf("the rollback is not ready: %s of %s", terminal.Plural(len(open), "gate"), d.named()),
			Cause: "not met: " + fmt.Sprint(open), Fix: "run the command next to each, then: replicator cutover rollback" + o.with(g)}
	}
	return plan, nil
}

// probeRollback probes the hooks of a rollback, which do nothing then.
func (o *Operator) probeRollback(ctx context.Context, groups []group, hooks cutover.Hooks) error {
	d := Driver(o.ends(), hooks)
	for _, g := range groups {
		if err := d.Probe(ctx, checkpoint.Cutover{CutoverPlan: checkpoint.CutoverPlan{Direction: checkpoint.Back, Group: g.Name, Tables: sourcesOf(g.Tables)}}); err != nil {
			return explain(ctx, "cannot call the hooks of a rollback", err)
		}
	}
	return nil
}

// EndFallback ends the way back of groups: DynamoDB no longer follows.
func (o *Operator) EndFallback(ctx context.Context, yes bool) error {
	if err := o.open(ctx, "cutover end-fallback"); err != nil {
		return err
	}
	defer o.Close()
	groups, err := o.toSteer("end the way back of", func(c *checkpoint.Cutover) bool { return c.HasFallback() && !c.RollingBack() })
	if err != nil {
		return err
	}
	if !yes {
		if o.Confirm == nil {
			return diag.BadUsage("end-fallback needs confirmation, but there is no terminal", "add --yes")
		}
		if err := o.Confirm(ctx, "End the way back of "+named(groups)+"? DynamoDB no longer follows, and the application cannot be moved back"); err != nil {
			return err
		}
	}
	for _, g := range groups {
		shown := task.Mono(ctx) - tellEvery
		err := Driver(o.ends(), nil).EndFallback(ctx, g.record.Row, func(waits string) {
			if now := task.Mono(ctx); now-shown >= tellEvery {
				shown = now
				_, _ = fmt.Fprintf(o.Stderr, "waiting: %s\n", waits)
			}
		})
		if err != nil {
			return explain(ctx, "cannot end the way back of "+o.of(g), err)
		}
	}
	return o.shown(ctx, groups)
}
