package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/comparison"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/itemkey"
	"github.com/dynamodb-bigtable/replicator/internal/memory"
)

// verifying holds the operator's flags of a verify.
type verifying struct {
	comparison.Operator
	flags comparison.Flags
}

// memoryOfVerify is the memory that the command should not exceed, in bytes. The sums of both sides
// and the pages in use take about half of it.
const memoryOfVerify = 176 << 20

// verify loads the configuration and calls do with an operator for it.
func (p *program) verify(ctx context.Context, v *verifying, do func(ctx context.Context, o *comparison.Operator) error) error {
	memory.Bound(memoryOfVerify)
	ctx, cancel := p.within(ctx)
	defer cancel()
	cfg, err := p.load()
	if err == nil && v.RemoveForeign && cfg.Target.Shared {
		err = diag.BadUsage("--remove-foreign contradicts target.shared", "remove the flag: extra rows may belong to another migration")
	}
	if err != nil {
		return err
	}
	o := v.Operator
	o.Console, o.Cfg, o.With = &p.Console, cfg, p.withConfig()
	if o.Log, err = p.logger(cfg, p.Stderr); err != nil {
		return err
	}
	return do(ctx, &o)
}

func newVerify(p *program) *cobra.Command {
	v := verifying{Operator: comparison.Operator{Waits: true}}
	c := &cobra.Command{
		Use:     "verify [flags]",
		Short:   "Compare source and target",
		GroupID: groupMigrate,
		Long: `Compare source and target both ways: missing rows, rows with other cells, orphan rows, and cells not
written by replicator.

A row that several items share is compared with all of them. Workers share the parts of a verify.
The command resumes a verify that was interrupted.

A table with few changes is compared by checksums, and only differing parts are read again. A table
with many changes is compared page by page. The output shows the mode and its reason.

In-flight changes are not reported: a row counts only if it still differs after all changes made
before the comparison were applied. While no worker reads the stream, the command reads it to its
end and writes nothing. Reads obey the limits of backfill and throttle.

--repair writes missing and different rows, and removes orphan rows. It skips rows that changed
meanwhile, and foreign rows unless the table is owned: true. Workers may keep running. Run verify
again to confirm.

--at-most N repairs no row of a table if more than N of its rows differ, and exits with 3.

--key and --keys compare single items, and print a result for each. This is no verify: the last
result and the gates of a cutover stay as they are. --in-flight compares only the rows that stayed
in flight. If all are equal, the last verify counts as clean.

--reverse compares items with their rows after a cutover with a way back. With --repair, a worker
makes differing items equal to their rows. A clean comparison ends a gap of the way back.

--report writes a file with one JSON line for each difference, with its key. Beside it, it writes an
HTML page with hashes of keys. Values need --show-values.

The exit status is 1 if the comparison fails, 3 if rows differ or stay in flight, and 4 if a time
limit passes first. status and verify status show the last result.`,
		Example: `  replicator verify
  replicator verify --table Orders --sample 1%
  replicator verify --table Orders --changed-since 10m --show-values
  replicator verify --table Orders --repair --dry-run
  replicator verify --table Orders --repair --at-most 100
  replicator verify --table Orders --key '{"PK":"hats","SK":"fedoras"}'
  replicator verify --table Orders --keys keys.jsonl --repair
  replicator verify --in-flight
  replicator verify --full --report verify.jsonl
  replicator verify --reverse --repair`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := v.Choose(v.flags); err != nil {
				return err
			}
			return p.verify(c.Context(), &v, func(ctx context.Context, o *comparison.Operator) error { return o.Begin(ctx) })
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&v.Table, "table", "", "only this source `TABLE`")
	f.BoolVar(&v.flags.Full, "full", false, "compare everything; this is the default")
	f.StringVar(&v.flags.Sample, "sample", "", "compare a `SHARE` of the items, chosen by a hash of their keys, such as 1%")
	f.StringVar(&v.flags.ChangedSince, "changed-since", "", "compare only rows with cells written in the last `DURATION`, such as 10m")
	f.StringArrayVar(&v.Keys, "key", nil, "compare only the item with this "+itemkey.Help+"; repeatable")
	f.StringVar(&v.KeysFile, "keys", "", "compare only the items whose keys are in `FILE`, one JSON object in each line; - is stdin")
	f.BoolVar(&v.InFlight, "in-flight", false, "compare only rows that stayed in flight in the last verify, and update its result")
	f.BoolVar(&v.Reverse, "reverse", false, "after a cutover with a way back: compare items with their rows")
	f.BoolVar(&v.Repair, "repair", false, "fix differences")
	f.StringVar(&v.flags.AtMost, "at-most", "", "with --repair: repair no row of a table if more than `N` of its rows differ")
	f.BoolVar(&v.RemoveForeign, "remove-foreign", false, "with --repair: also remove extra rows not written by this migration")
	f.BoolVar(&v.DryRun, "dry-run", false, "with --repair: show what it would do, and write nothing")
	f.StringVar(&v.Report, "report", "", "write a JSON line for each difference to `FILE`, and an HTML page next to it")
	f.BoolVar(&v.ShowValues, "show-values", false, "show keys and values of what differs, which is item data")
	f.BoolVar(&v.Waits, "wait", true, "run the verify and wait for its end")
	allowFlags(c, &v.Allowed)
	c.AddCommand(newVerifyStatus(p), newVerifyPause(p), newVerifyResume(p), newVerifyCancel(p))
	return c
}

func newVerifyStatus(p *program) *cobra.Command {
	var v verifying
	var schema bool
	c := &cobra.Command{
		Use:   "status [flags]",
		Short: "Show the progress and results of verifies",
		Long: `Show the progress of each table's verify, or its last result. It works from any machine.

A result that is more than a day old is called stale. The exit status is 0 if the ledger could be
read. --schema prints the JSON Schema of the document that every verify command prints with -o json.`,
		Example: `  replicator verify status
  replicator verify status --table Orders --show-values
  replicator verify status -o json | jq '.tables[].result.clean'`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			if schema {
				_, err := p.Stdout.Write(comparison.Schema)
				return err
			}
			return p.verify(c.Context(), &v, func(ctx context.Context, o *comparison.Operator) error { return o.Show(ctx) })
		},
	}
	c.Flags().StringVar(&v.Table, "table", "", "only this source `TABLE`")
	c.Flags().BoolVar(&v.ShowValues, "show-values", false, "show keys and values of what differs, which is item data")
	c.Flags().BoolVar(&schema, "schema", false, "print only the JSON Schema of the -o json output")
	allowEmulatorOfReader(c)
	return c
}

// newVerifyStep makes a command that controls verifies in progress.
func newVerifyStep(p *program, step, short, long, example string) *cobra.Command {
	var v verifying
	c := &cobra.Command{
		Use: step + " [flags]", Short: short, Long: long, Example: example, Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.verify(c.Context(), &v, func(ctx context.Context, o *comparison.Operator) error { return o.Steer(ctx, step) })
		},
	}
	c.Flags().StringVar(&v.Table, "table", "", "only this source `TABLE`")
	allowFlags(c, &v.Allowed)
	return c
}

func newVerifyPause(p *program) *cobra.Command {
	return newVerifyStep(p, comparison.Pause, "Pause verifies",
		`Pause verifies. Workers finish their current pages. Commands that wait for a verify end.`,
		`  replicator verify pause --table Orders`)
}

func newVerifyResume(p *program) *cobra.Command {
	return newVerifyStep(p, comparison.Resume, "Resume paused verifies",
		`Resume paused verifies. Workers follow within seconds. replicator verify also resumes one, and waits for its end.`,
		`  replicator verify resume --table Orders`)
}

func newVerifyCancel(p *program) *cobra.Command {
	return newVerifyStep(p, comparison.Cancel, "End verifies without a result",
		`End running verifies without a result. Earlier results stay.`,
		`  replicator verify cancel --table Orders`)
}
