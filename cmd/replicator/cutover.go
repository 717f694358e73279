package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/build"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/switchover"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/internal/timespan"
)

// cutover loads the configuration and calls do with an operator for it.
func (p *program) cutover(ctx context.Context, allowed environment.Allowed, do func(ctx context.Context, o *switchover.Operator) error) error {
	ctx, cancel := p.within(ctx)
	defer cancel()
	cfg, err := p.load()
	if err != nil {
		return err
	}
	o := &switchover.Operator{Console: &p.Console, Cfg: cfg, Allowed: allowed, With: p.withConfig(), Version: build.This().Version, Select: p.groups}
	o.Confirm = terminal.Asking(p.Stderr)
	return do(ctx, o)
}

// operating makes c a command that calls do with an operator.
func operating(p *program, c *cobra.Command, do func(ctx context.Context, o *switchover.Operator) error) *cobra.Command {
	var allowed environment.Allowed
	c.Args = none
	c.RunE = func(c *cobra.Command, _ []string) error { return p.cutover(c.Context(), allowed, do) }
	allowFlags(c, &allowed)
	return c
}

func newCutover(p *program) *cobra.Command {
	c := group(&cobra.Command{
		Use: "cutover", Short: "Check, start and steer the switch of the application to Bigtable", GroupID: groupMigrate,
		Long: `Move the application from the source to the target: checks, freeze, drain, final verify, fence,
switch.

The ledger records every step before it begins, so any worker can continue after a crash.

The config names three hooks: executables or https:// addresses. They stop the application's writes,
switch it to the target, and let it write again. A worker can call the hooks if its --probe of each
hook succeeded. If no worker can, this command calls them, and must keep running.

Before the switch, an attempt ends if a deadline passes, a step fails, a writer was missed, or you
run cutover cancel. Then the application writes the source again, and the tables resume from their
checkpoints. After the switch there is no cancel.

With --keep-fallback yes, DynamoDB follows Bigtable after the switch, until cutover rollback moves
the application back or cutover end-fallback ends that.`,
		Example: `  replicator cutover check
  replicator cutover start --dry-run --keep-fallback yes
  replicator cutover start --keep-fallback yes
  replicator cutover status`,
	})
	p.groups.Flags(c.PersistentFlags())
	c.AddCommand(newCutoverCheck(p), newCutoverStart(p), newCutoverApprove(p), newCutoverPostpone(p), newCutoverCancel(p), newCutoverResolve(p), newCutoverRollback(p), newCutoverEndFallback(p), newCutoverStatus(p), newCutoverEvidence(p))
	return c
}

func newCutoverCheck(p *program) *cobra.Command {
	return operating(p, &cobra.Command{
		Use: "check [flags]", Short: "Show whether the tables can be cut over, gate by gate",
		Long: `Show whether the tables can be cut over, gate by gate. Nothing is changed.

Each gate shows its figure, its bound from cutover.ready_when, and a command that helps. A gate
without a figure is not ready. The output also has the deadlines of the steps, and for each table the
reasons that prevent a fallback.

The exit status is 3 if a gate is not ready.`,
		Example: `  replicator cutover check
  replicator cutover check -o json | jq '.ready, .safe_to_write'`,
	}, func(ctx context.Context, o *switchover.Operator) error { return o.Check(ctx) })
}

func newCutoverStart(p *program) *cobra.Command {
	r := switchover.Request{Wait: true}
	c := &cobra.Command{
		Use: "start [flags]", Short: "Begin a cutover, and follow it",
		Long: `Begin a cutover of all tables, and show its steps until the application has switched.

If a gate is not ready, nothing begins. With --when-ready the request waits for the gates, within
--between and until --expires. Without --yes it also waits for replicator cutover approve.

--dry-run rehearses: canaries, drain, final verify and fence are real, but the application is
neither stopped nor switched.

--override ignores a gate that is not ready; the evidence records its --reason. --keep-fallback is
required. With yes, DynamoDB follows Bigtable after the switch, so that replicator cutover rollback
can move the application back. replicator plan shows for each table whether that is possible.

Writes are frozen only when the freeze is expected to end within cutover.freeze_at_most. The command
waits for such a moment for at most cutover.request_expires or --timeout. Exit status 4 means that
nothing was frozen, and 3 that a gate is not ready or the cutover was cancelled.`,
		Example: `  replicator cutover start --keep-fallback yes --dry-run
  replicator cutover start --keep-fallback no --yes
  replicator cutover start --keep-fallback yes \
    --when-ready --between 02:00-04:00 --expires 24h
  replicator cutover start --keep-fallback no \
    --override headroom --reason "quiet shards, change 4711"`,
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&r.KeepFallback, "keep-fallback", "", "`yes|no`: let DynamoDB follow after the switch (required)")
	f.BoolVar(&r.Rehearse, "dry-run", false, "rehearse: neither stop nor switch the application")
	f.BoolVar(&r.Yes, "yes", false, "do not ask, and do not wait for approval")
	f.StringArrayVar(&r.Overrides, "override", nil, "ignore this `GATE` if it is not ready: lag, verify, parked, headroom or fence")
	f.StringVar(&r.Reason, "reason", "", "`TEXT` of the reason why a gate may be ignored")
	f.BoolVar(&r.WhenReady, "when-ready", false, "begin once all gates are ready")
	f.StringVar(&r.Between, "between", "", "with --when-ready: only within these `HOURS` of the day in UTC, such as 02:00-04:00")
	f.DurationVar(&r.Expires, "expires", 0, "cancel a request that did not begin within `DURATION` (default cutover.request_expires)")
	f.BoolVar(&r.Wait, "wait", true, "follow the cutover; false leaves it to the workers")
	return operating(p, c, func(ctx context.Context, o *switchover.Operator) error {
		r.Timeout = p.timeout
		return o.Start(ctx, r)
	})
}

// newCutoverStep makes a command that controls the attempt in progress.
func newCutoverStep(p *program, c *cobra.Command, read func(args []string) (switchover.Step, error)) *cobra.Command {
	var allowed environment.Allowed
	c.RunE = func(c *cobra.Command, args []string) error {
		s, err := read(args)
		if err != nil {
			return err
		}
		return p.cutover(c.Context(), allowed, func(ctx context.Context, o *switchover.Operator) error { return o.Steer(ctx, s) })
	}
	allowFlags(c, &allowed)
	return c
}

func newCutoverApprove(p *program) *cobra.Command {
	return newCutoverStep(p, &cobra.Command{
		Use: "approve [flags]", Short: "Approve a requested cutover", Args: none,
		Long: `Approve a cutover that was started with --when-ready. It begins as soon as its hours and gates
allow.`,
		Example: `  replicator cutover approve`,
	}, func([]string) (switchover.Step, error) { return switchover.Step{Name: "approve"}, nil })
}

func newCutoverPostpone(p *program) *cobra.Command {
	return newCutoverStep(p, &cobra.Command{
		Use: "postpone [flags] DURATION", Short: "Delay a requested cutover",
		Long:    "Delay a requested cutover by a duration. Its expiry moves by the same time.",
		Example: `  replicator cutover postpone 2h`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return diag.BadUsage("replicator cutover postpone takes one duration", "write it like: replicator cutover postpone 2h")
			}
			return nil
		},
	}, func(args []string) (switchover.Step, error) {
		d, err := timespan.Parse(args[0])
		if err != nil || d <= 0 {
			return switchover.Step{}, diag.BadUsage(args[0]+" is not a duration", "give a time such as 30m or 2h")
		}
		return switchover.Step{Name: "postpone", For: d}, nil
	})
}

func newCutoverCancel(p *program) *cobra.Command {
	s := switchover.Step{Name: "cancel", Wait: true}
	c := newCutoverStep(p, &cobra.Command{
		Use: "cancel [flags]", Short: "End a cutover before the switch", Args: none,
		Long: `Cancel a cutover before the switch. After the switch this is refused.

The hook unfreeze_writes lets the application write again, late writes of the attempt are rejected,
and the tables resume from their checkpoints.`,
		Example: `  replicator cutover cancel --reason "orders are late tonight"`,
	}, func([]string) (switchover.Step, error) { return s, nil })
	c.Flags().StringVar(&s.Reason, "reason", "", "`TEXT` for the cutover's record")
	c.Flags().BoolVar(&s.Wait, "wait", true, "wait until the application writes again")
	return c
}

func newCutoverResolve(p *program) *cobra.Command {
	var switched string
	s := switchover.Step{Name: "resolve", Wait: true}
	c := newCutoverStep(p, &cobra.Command{
		Use: "resolve --switched yes|no [flags]", Short: "Confirm the switch if its hook cannot answer", Args: none,
		Long: `Confirm whether the application has switched, if the switch hook cannot answer.

Replicator calls the hook until it answers. If it cannot answer, find out whether the application
has switched, and make sure that no call of the hook is still running. Then "yes" completes the
cutover, and "no" cancels it.`,
		Example: `  replicator cutover resolve --switched yes`,
	}, func([]string) (switchover.Step, error) {
		if switched != "yes" && switched != "no" {
			return s, diag.BadUsage("replicator cutover resolve needs --switched yes or --switched no", "find out whether the application writes the target")
		}
		s.Answer = switched == "yes"
		return s, nil
	})
	c.Flags().StringVar(&switched, "switched", "", "`yes|no`: whether the application has switched")
	c.Flags().BoolVar(&s.Wait, "wait", true, "then follow the cutover")
	return c
}

func newCutoverRollback(p *program) *cobra.Command {
	u := switchover.Undoing{Wait: true}
	c := &cobra.Command{
		Use: "rollback [flags]", Short: "Move the application back to DynamoDB",
		Long: `Move the application back to DynamoDB, which has followed Bigtable since the switch.

It needs a cutover that was started with --keep-fallback yes. cutover.rollback_hooks stop the writes
to Bigtable, move the application, and let it write again. While writes are frozen, the last changes
are carried, and all items are compared with their rows, within cutover.rollback_deadline.

A gate that is not ready refuses the rollback. --override carried leaves the rows behind that cannot
be carried. Before its switch, cutover cancel ends a rollback: the application writes Bigtable again.

After it, the tables replicate to Bigtable again, with a load and a sweep. Another cutover is an
ordinary one.`,
		Example: `  replicator cutover rollback --dry-run
  replicator cutover rollback --yes`,
	}
	f := c.Flags()
	f.SortFlags = false
	f.BoolVar(&u.DryRun, "dry-run", false, "show the gates and probe the hooks; change nothing")
	f.BoolVar(&u.Yes, "yes", false, "do not ask")
	f.StringArrayVar(&u.Overrides, "override", nil, "ignore this `GATE` if it is not ready: carried")
	f.StringVar(&u.Reason, "reason", "", "`TEXT` of the reason why the gate may be ignored")
	f.BoolVar(&u.Wait, "wait", true, "follow the rollback; false leaves it to the workers")
	return operating(p, c, func(ctx context.Context, o *switchover.Operator) error { return o.Rollback(ctx, u) })
}

func newCutoverEndFallback(p *program) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use: "end-fallback [flags]", Short: "Give up the way back to DynamoDB",
		Long: `End the way back: DynamoDB no longer follows Bigtable, and the application cannot be moved back.

It waits until no request to DynamoDB is in flight or in doubt. Then the watch for late writers ends
as without a way back, and finalize is possible.`,
		Example: `  replicator cutover end-fallback`,
	}
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return operating(p, c, func(ctx context.Context, o *switchover.Operator) error { return o.EndFallback(ctx, yes) })
}

func newCutoverStatus(p *program) *cobra.Command {
	var schema, keys bool
	c := &cobra.Command{
		Use: "status [flags]", Short: "Show the step of the cutover and its timeline",
		Long: `Show the step of the cutover, how long writes have been frozen, and what it waits for.

The output also has the timeline, every hook call with its output, the proof that each shard was
drained, and changes made after the freeze. Their items are shown as hashes. --show-keys reads the keys from the
streams, which keep them for 24 hours.

The exit status is 0 if the ledger could be read. --schema prints the JSON Schema of the document
that every cutover command prints with -o json.`,
		Example: `  replicator cutover status
  replicator cutover status -o json | jq '.step, .frozen_seconds'`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			if schema {
				_, err := p.Stdout.Write(switchover.Schema)
				return err
			}
			return p.cutover(c.Context(), environment.Allowed{}, func(ctx context.Context, o *switchover.Operator) error {
				o.ShowKeys = keys
				return o.Show(ctx)
			})
		},
	}
	c.Flags().BoolVar(&keys, "show-keys", false, "show the keys of items that were changed after the freeze")
	c.Flags().BoolVar(&schema, "schema", false, "print only the JSON Schema of the -o json output")
	allowEmulatorOfReader(c)
	return c
}

func newCutoverEvidence(p *program) *cobra.Command {
	c := &cobra.Command{
		Use: "evidence [flags] FOLDER", Short: "Write the record of a cutover into a folder",
		Long: `Write the record of a cutover into a folder: a page, JSON, CSV tables, and SHA-256 sums. It has no
item data.

The record has the config's hash, versions, gates and overrides, verify results, parked items, and
gaps with their repairs. It also has every shard's last position, the proof that it was drained, and
the times of every step and hook call.

Run it at any time. It never overwrites a folder.`,
		Example: `  replicator cutover evidence cutover-2026-11-25

  # within the folder
  sha256sum -c SHA256SUMS`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return diag.BadUsage("replicator cutover evidence takes one folder", "write it like: replicator cutover evidence cutover-2026-11-25")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			return p.cutover(c.Context(), environment.Allowed{}, func(ctx context.Context, o *switchover.Operator) error { return o.Evidence(ctx, args[0]) })
		},
	}
	allowEmulatorOfReader(c)
	return c
}

func newFinalize(p *program) *cobra.Command {
	var f switchover.Finalizing
	c := &cobra.Command{
		Use: "finalize [flags]", Short: "Remove replicator's metadata; list what to decommission", GroupID: groupMigrate,
		Long: `After a cutover, remove replicator's metadata from the target tables, and list what to decommission.

It removes the column families _cdc and _cdc_gone, the families of the fence, and the view that
target.view names, once the watch for late writers is over. The application's own families stay.

The cutover's record stays in the state table, so that replicator run never writes again: it only
idles. Nothing is removed while a worker is running and not idle.`,
		Example: `  replicator finalize --dry-run
  replicator finalize --yes
  replicator finalize --keep-view`,
	}
	p.groups.Flags(c.Flags())
	c.Flags().BoolVar(&f.DryRun, "dry-run", false, "show what would be removed")
	c.Flags().BoolVar(&f.Yes, "yes", false, "do not ask")
	c.Flags().IntVar(&f.StraysSeen, "strays-seen", 0, "`NUMBER` of DynamoDB changes after the freeze that you have checked; finalize refuses if there are more")
	c.Flags().BoolVar(&f.KeepView, "keep-view", false, "leave the view: the application reads through it")
	return operating(p, c, func(ctx context.Context, o *switchover.Operator) error { return o.Finalize(ctx, f) })
}
