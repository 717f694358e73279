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
		Short:   "start | pause | resume | redo | status of the copy of existing items",
		GroupID: groupMigrate,
		Long: `Show and control loads, the copies of existing items. Commands write the ledger, and workers follow
within seconds.

The first load of a table begins when replicator run meets it. After a gap the table needs another
load, which begins by itself if backfill.on_gap is load.

All workers share the parts of a load. After the copy a sweep checks what no part could reach, and
only then is the table in sync again.`,
		Example: `  replicator backfill status
  replicator backfill start --repair-gap --dry-run
  replicator backfill redo --table Orders --dry-run`,
	})
	c.AddCommand(newBackfillStart(p), newBackfillPause(p), newBackfillResume(p), newBackfillRedo(p), newBackfillStatus(p))
	return c
}

// steering is an operator at this machine, once his flags are read.
type steering struct{ loads.Operator }

// flags adds those of a command that changes loads.
func (s *steering) flags(c *cobra.Command, begins bool) {
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&s.Table, "table", "", "only this source `TABLE`")
	if begins {
		f.BoolVar(&s.DryRun, "dry-run", false, "show what would be done and what it costs; change nothing")
	}
	allowFlags(c, &s.Allowed)
}

func (s *steering) waits(c *cobra.Command) {
	c.Flags().BoolVar(&s.Waits, "wait", false, "wait until all is loaded and swept; status 3 if it needs an answer")
}

// steer runs a command with the configuration.
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

func newBackfillStart(p *program) *cobra.Command {
	var s steering
	var named []string
	r := loads.Request{Action: loads.ActionStart}
	c := &cobra.Command{
		Use:   "start [flags]",
		Short: "Ask for a load",
		Long: `Ask for the load of tables that were not copied, or that need another load after a gap. Workers plan
it within seconds.

A table with nothing to load is left alone; replicator backfill redo loads it again. --yes allows
the sweep after the copy. Without it, the first sweep of a target that replicator did not create
only counts, and waits for replicator backfill resume --yes.

--export copies a full export to S3 instead of a scan, without read units. Name its folder: a
directory that every worker has, s3:// or gs://. An export that is older than the changes the stream
still holds is refused.

The files of an export do not say whether it was filtered or projected. DynamoDB is asked, which
remembers exports for some months. --whole-export answers where DynamoDB does not know or may not be
asked.

Windows (incremental exports) bring a full export up to a later time. Give each its own --export, in
any order. The first begins at the time of the full export, each other one where the one before
ends.

With --repair-gap, windows alone repair a gap of the stream, if they begin before the loss and end
after the stream is read again. Every other loss needs a copy. A first load copies an export if
backfill.from, or the table's backfill_from, names one.

--request-export asks DynamoDB for the export, and --export says where it goes. The table needs
point-in-time recovery. A worker asks once the stream is read, waits minutes to hours for the
export, and copies it. --dry-run says what it costs.`,
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
  replicator backfill start --repair-gap --wait
  replicator backfill start --table Orders --yes`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			if len(named) > 0 {
				r.Export, r.Windows = named[0], named[1:]
			}
			switch {
			case r.Export != "" && s.Table == "":
				return diag.BadUsage("an export is of one table, and none is named", "add --table")
			case r.Wish && (s.Table == "" || r.Export == ""):
				return diag.BadUsage("--request-export is of one table, and has to say where the export goes", "add --table and --export s3://BUCKET/PREFIX")
			case r.Whole && (r.Export == "" || r.Wish):
				return diag.BadUsage("--whole-export is about an export that there is, and none is named", "add --export, without --request-export")
			case r.Wish && len(r.Windows) > 0:
				return diag.BadUsage("--request-export is of one export, and several are named", "leave out all but the --export that says where it goes")
			case r.Wish:
				if _, err := loads.Destination(r.Export); err != nil {
					return err
				}
			}
			return p.steer(c.Context(), &s, func(ctx context.Context, o *loads.Operator) error { return o.Steer(ctx, r) })
		},
	}
	c.Flags().BoolVar(&r.Repair, "repair-gap", false, "only tables that need a load because changes were lost")
	s.flags(c, true)
	c.Flags().StringArrayVar(&named, "export", nil, "copy the export in this `FOLDER` instead of a scan; repeat it for each window")
	c.Flags().BoolVar(&r.Whole, "whole-export", false, "the export has no filter, projection or key conditions")
	c.Flags().BoolVar(&r.Wish, "request-export", false, "ask DynamoDB for the export; --export is where it goes: s3://BUCKET[/PREFIX]")
	c.Flags().BoolVar(&s.Yes, "yes", false, "allow the sweep beforehand")
	s.waits(c)
	return c
}

func newBackfillPause(p *program) *cobra.Command {
	var s steering
	c := &cobra.Command{
		Use:   "pause [flags]",
		Short: "Pause loads; changes are still applied",
		Long: `Pause loads. Changes of the stream are still applied.

Workers finish the pages that they hold and take no further part. Nothing that was copied is copied
again later.`,
		Example: `  replicator backfill pause --table Orders`,
		Args:    none,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.steer(c.Context(), &s, func(ctx context.Context, o *loads.Operator) error {
				return o.Steer(ctx, loads.Request{Action: loads.ActionPause})
			})
		},
	}
	s.flags(c, false)
	return c
}

func newBackfillResume(p *program) *cobra.Command {
	var s steering
	c := &cobra.Command{
		Use:   "resume [flags]",
		Short: "Resume paused loads, or allow a sweep",
		Long: `Resume paused loads. With --yes also allow the sweep.

A sweep removes orphan rows. The first sweep of a target that replicator did not create only counts
them, and waits. Look at its counts in replicator backfill status, then allow it with --yes. The
answer is kept for later loads of the table.`,
		Example: `  replicator backfill resume --table Orders
  replicator backfill resume --table Orders --yes  # allows the sweep`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.steer(c.Context(), &s, func(ctx context.Context, o *loads.Operator) error {
				return o.Steer(ctx, loads.Request{Action: loads.ActionResume})
			})
		},
	}
	s.flags(c, false)
	c.Flags().BoolVar(&s.Yes, "yes", false, "allow the sweep that waits, or the next one")
	s.waits(c)
	return c
}

func newBackfillRedo(p *program) *cobra.Command {
	var s steering
	c := &cobra.Command{
		Use:   "redo --table TABLE [flags]",
		Short: "Load everything of a table again",
		Long: `Load everything of a table again, for example after the target was changed by hand.

A new generation begins, in which every row is written anew. Rows stay readable meanwhile. The table
is not in sync until the load and its sweep are over. A load that is running ends.

--yes answers the question asked on a terminal, and also allows the sweep after the copy.`,
		Example: `  replicator backfill redo --table Orders --dry-run
  replicator backfill redo --table Orders --yes --wait`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			if s.Table == "" {
				return diag.BadUsage("replicator backfill redo loads a table again, and none is named", "add --table")
			}
			return p.steer(c.Context(), &s, func(ctx context.Context, o *loads.Operator) error {
				return o.Steer(ctx, loads.Request{Action: loads.ActionRedo})
			})
		},
	}
	s.flags(c, true)
	c.Flags().BoolVar(&s.Yes, "yes", false, "do not ask, and allow the sweep beforehand")
	s.waits(c)
	return c
}

func newBackfillStatus(p *program) *cobra.Command {
	var s steering
	var schema bool
	c := &cobra.Command{
		Use:   "status [flags]",
		Short: "Show how far loads are, what they cost so far and what slows them",
		Long: `Show how far loads are, what they cost so far and what slows them, from the ledger.

The rate is over the last five minutes. The remaining time is unknown while a load is paused, and
until it has run for a minute and copied a hundredth of the items. DynamoDB's item count is hours
old, so the share stays below 100% until every part is done.

Cost is the read units that DynamoDB counted plus the bytes that left AWS, at list prices.

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
	c.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of the document of -o json, and nothing else")
	allowEmulatorOfReader(c)
	return c
}
