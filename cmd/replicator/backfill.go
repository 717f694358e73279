package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/loads"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

func newBackfill(p *program) *cobra.Command {
	c := group(&cobra.Command{
		Use:     "backfill",
		Short:   "Start, pause, resume, redo or show the copy of existing items",
		GroupID: groupMigrate,
		Long: `Show and control loads: copies of the existing items of a table. Workers react to a command within
seconds.

The first load of a table begins when replicator run first sees the table, from an export if
backfill.from names one. After a gap the table needs another load. With on_gap: load in the config,
it begins automatically.

All workers share the parts of a load. After the copy a sweep removes orphan rows.`,
		Example: `  replicator backfill status
  replicator backfill repair Orders --dry-run
  replicator backfill redo --table Orders --dry-run`,
	})
	c.AddCommand(newBackfillStart(p), newBackfillRepair(p), newBackfillPause(p), newBackfillResume(p), newBackfillRedo(p), newBackfillCancel(p), newBackfillStatus(p))
	return c
}

// steering holds the operator's flags of a command that controls loads.
type steering struct{ loads.Operator }

// flags adds the flags of a command that changes loads.
func (s *steering) flags(c *cobra.Command, begins bool) {
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&s.Table, "table", "", "only this source `TABLE`")
	if begins {
		f.BoolVar(&s.DryRun, "dry-run", false, "show what would be done and its cost; change nothing")
	}
	allowFlags(c, &s.Allowed)
}

func (s *steering) waits(c *cobra.Command) {
	c.Flags().BoolVar(&s.Waits, "wait", false, "wait until loads and sweeps end; exit status 3 if one needs approval")
}

// steer loads the configuration and calls do with an operator for it.
func (p *program) steer(ctx context.Context, s *steering, do func(ctx context.Context, o *loads.Operator) error) error {
	ctx, cancel := p.within(ctx)
	defer cancel()
	cfg, err := p.load()
	if err != nil {
		return err
	}
	o := s.Operator
	o.Console, o.Cfg, o.With = &p.Console, cfg, p.withConfig()
	o.Confirm = terminal.Asking(p.Stderr)
	err = do(ctx, &o)
	if said := (loads.Shown{}); errors.As(err, &said) {
		return &reported{said}
	}
	return err
}

// request carries out a request.
func (p *program) request(ctx context.Context, s *steering, r loads.Request) error {
	return p.steer(ctx, s, func(ctx context.Context, o *loads.Operator) error { return o.Steer(ctx, r) })
}

func newBackfillStart(p *program) *cobra.Command {
	var s steering
	r := loads.Request{Action: loads.ActionStart}
	c := &cobra.Command{
		Use:   "start [flags]",
		Short: "Request a load",
		Long: `Start the load of tables that were never copied, or that need another load after a gap.

A table with nothing to load is left alone; replicator backfill redo loads it again. --yes approves
the sweep after the copy. Without it, the first sweep of a target that replicator did not create
only counts orphan rows, and waits for replicator backfill resume --yes.

--fast copies many rows in one request, which is several times as fast. Only the first load of a
table into a target that replicator created can be fast.

--export reads a full export instead of a scan, so it uses no read units. Give its folder: s3://,
gs:// or a directory that every worker can read. The stream must still hold every change made since
the export.

The files of an export do not show whether it was filtered. Replicator reads this from DynamoDB,
which keeps descriptions of exports for some months. If there is no description, or access is
denied, confirm with --whole-export.

Incremental exports (windows) bring a full export up to a later time. Give each its own --export, in
any order. Each window must begin where the export before it ends.

With --repair-gap, windows alone can repair a gap of the stream. They must begin before the loss,
and end after workers resumed reading the stream. Every other loss needs a full copy.

--request-export requests the export from DynamoDB, into the bucket of --export. The table needs
point-in-time recovery. A worker waits for the export (minutes to hours), then copies it. --dry-run
shows the cost.`,
		Example: `  replicator backfill start --repair-gap --dry-run
  replicator backfill start --table Orders \
    --export s3://exports/AWSDynamoDB/01715685260608-c488b4e1
  replicator backfill start --table Orders \
    --request-export --export s3://exports --wait
  replicator backfill start --table Orders \
    --export s3://exports/AWSDynamoDB/FULL \
    --export s3://exports/AWSDynamoDB/WINDOW
  replicator backfill start --table Orders --repair-gap \
    --export s3://exports/AWSDynamoDB/WINDOW
  replicator backfill start --table Orders --fast --wait`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := r.Check(s.Table); err != nil {
				return err
			}
			return p.request(c.Context(), &s, r)
		},
	}
	c.Flags().BoolVar(&r.Repair, "repair-gap", false, "only tables that need a load because changes were lost")
	c.Flags().BoolVar(&r.Fast, "fast", false, "write many rows in one request, without conditions; a sweep follows")
	s.flags(c, true)
	c.Flags().StringArrayVar(&r.From, "export", nil, "copy the export in this `FOLDER` instead of a scan; repeat it for each window")
	c.Flags().BoolVar(&r.Whole, "whole-export", false, "the export has no filter, projection or key conditions")
	c.Flags().BoolVar(&r.Wish, "request-export", false, "request an export from DynamoDB into --export s3://BUCKET[/PREFIX]")
	c.Flags().BoolVar(&s.Yes, "yes", false, "approve the sweep in advance")
	s.waits(c)
	return c
}

func newBackfillRepair(p *program) *cobra.Command {
	var s steering
	var how loads.Repair
	c := &cobra.Command{
		Use:   "repair TABLE [flags]",
		Short: "Repair a gap in the cheapest way: windows, export or scan",
		Long: `Repair a table that needs another load because changes were lost. A table that needs none is left
alone.

Shows price and duration of each way, or why it is not possible, then takes the cheapest. For equal
prices it prefers windows to an export, and an export to a scan.

windows: a worker requests incremental exports from before the loss to the present, and loads them.
Then a sweep reads every item whose row they did not write. This needs point-in-time recovery since
before the loss. export: a worker requests a full export. scan: the table is read.

DynamoDB writes exports to backfill.exports_to, or to --export. If an export fails, the load waits.
Repeat the command to request only the failed windows again.`,
		Example: `  replicator backfill repair Orders --dry-run
  replicator backfill repair Orders --yes --wait
  replicator backfill repair Orders --by windows \
    --export s3://exports --dry-run`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return diag.BadUsage("replicator backfill repair needs a table", "name it: replicator backfill repair TABLE")
			}
			s.Table = args[0]
			return p.steer(c.Context(), &s, func(ctx context.Context, o *loads.Operator) error { return o.Repair(ctx, how) })
		},
	}
	c.Flags().SortFlags = false
	c.Flags().StringVar(&how.By, "by", "", "`WAY` to repair: windows, export or scan (default the cheapest)")
	c.Flags().StringVar(&how.To, "export", "", "request exports into `s3://BUCKET[/PREFIX]` (default backfill.exports_to)")
	c.Flags().BoolVar(&s.DryRun, "dry-run", false, "show the ways and their prices; change nothing")
	c.Flags().BoolVar(&s.Yes, "yes", false, "do not ask, and approve the sweep in advance")
	allowFlags(c, &s.Allowed)
	s.waits(c)
	return c
}

func newBackfillPause(p *program) *cobra.Command {
	var s steering
	c := &cobra.Command{
		Use:   "pause [flags]",
		Short: "Pause loads; changes are still applied",
		Long: `Pause loads. Changes of the stream are still applied.

Workers finish their current pages and start no new part. A resumed load copies nothing twice.`,
		Example: `  replicator backfill pause --table Orders`,
		Args:    none,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.request(c.Context(), &s, loads.Request{Action: loads.ActionPause})
		},
	}
	s.flags(c, false)
	return c
}

func newBackfillResume(p *program) *cobra.Command {
	var s steering
	c := &cobra.Command{
		Use:   "resume [flags]",
		Short: "Resume paused loads, or approve a sweep",
		Long: `Resume paused loads. With --yes also approve the sweep.

A sweep removes orphan rows. The first sweep of a target that replicator did not create only counts
them, and waits. See the counts in replicator backfill status, then approve with --yes. Later loads
of the table need no new approval.`,
		Example: `  replicator backfill resume --table Orders
  replicator backfill resume --table Orders --yes  # allows the sweep`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.request(c.Context(), &s, loads.Request{Action: loads.ActionResume})
		},
	}
	s.flags(c, false)
	c.Flags().BoolVar(&s.Yes, "yes", false, "approve the waiting sweep, or the next one")
	s.waits(c)
	return c
}

func newBackfillRedo(p *program) *cobra.Command {
	var s steering
	r := loads.Request{Action: loads.ActionRedo}
	c := &cobra.Command{
		Use:   "redo --table TABLE [flags]",
		Short: "Load all items of a table again",
		Long: `Load all items of a table again, for example after the target was changed by hand.

This begins a new generation and writes every row again. Rows stay readable. The table is not in
sync until the load and its sweep are complete. A running load ends.

--yes skips the question, and also approves the sweep after the copy.`,
		Example: `  replicator backfill redo --table Orders --dry-run
  replicator backfill redo --table Orders --yes --wait`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			if s.Table == "" {
				return diag.BadUsage("replicator backfill redo needs a table", "add --table")
			}
			return p.request(c.Context(), &s, r)
		},
	}
	s.flags(c, true)
	c.Flags().BoolVar(&s.Yes, "yes", false, "do not ask, and approve the sweep in advance")
	c.Flags().BoolVar(&r.Fast, "fast", false, "always refused, because only a table's first load can be fast")
	s.waits(c)
	return c
}

func newBackfillCancel(p *program) *cobra.Command {
	var s steering
	c := &cobra.Command{
		Use:   "cancel --table TABLE [flags]",
		Short: "End a load, for example if its export is damaged",
		Long: `End the load of a table, for example if a file of its export is damaged or it copies the wrong
export.

The table still needs a load, and none begins automatically: use replicator backfill start, with
any source. If the load has copied items, this begins a new generation.`,
		Example: `  replicator backfill cancel --table Orders --dry-run
  replicator backfill cancel --table Orders --yes`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			if s.Table == "" {
				return diag.BadUsage("replicator backfill cancel needs a table", "add --table")
			}
			return p.request(c.Context(), &s, loads.Request{Action: loads.ActionCancel})
		},
	}
	s.flags(c, true)
	c.Flags().BoolVar(&s.Yes, "yes", false, "do not ask")
	return c
}

func newBackfillStatus(p *program) *cobra.Command {
	var s steering
	var schema bool
	c := &cobra.Command{
		Use:   "status [flags]",
		Short: "Show the progress, cost and limits of loads",
		Long: `Show the progress of loads, their cost so far and what limits them.

The rate is over the last five minutes. The remaining time is unknown while a load is paused, and
until it has run for a minute and copied 1% of the items. DynamoDB's item count may be six hours
old, so the share stays below 100% until every part is complete.

Cost is the consumed read units plus egress, at list prices.

The exit status is 0 if the ledger could be read. --schema prints the JSON Schema of the document
that every backfill command and throttle print with -o json.`,
		Example: `  replicator backfill status
  replicator backfill status --table Orders --wait
  replicator backfill status -o json | jq '.tables[].load.eta_seconds'`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			if schema {
				_, err := p.Stdout.Write(loads.Schema)
				return err
			}
			return p.steer(c.Context(), &s, func(ctx context.Context, o *loads.Operator) error { return o.Show(ctx) })
		},
	}
	c.Flags().StringVar(&s.Table, "table", "", "only this source `TABLE`")
	s.waits(c)
	c.Flags().BoolVar(&schema, "schema", false, "print only the JSON Schema of the -o json output")
	allowEmulatorOfReader(c)
	return c
}
