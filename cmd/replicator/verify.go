package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/comparison"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/memory"
)

// verifying is an operator at this machine, once his flags are read.
type verifying struct {
	comparison.Operator
	full           bool
	sample, change string
}

// scope reads what is to be compared.
func (v *verifying) scope() error {
	given := 0
	for _, one := range []bool{v.full, v.sample != "", v.change != ""} {
		if one {
			given++
		}
	}
	if given > 1 {
		return diag.BadUsage("--full, --sample and --changed-since exclude each other", "give one of them, or none for --full")
	}
	var err error
	if v.sample != "" {
		if v.Sample, err = comparison.ParseSample(v.sample); err != nil {
			return diag.BadUsage("--sample "+v.sample+" is no share of the items", err.Error())
		}
	}
	if v.change != "" {
		if v.ChangedSince, err = config.ParseDuration(v.change); err != nil || v.ChangedSince <= 0 {
			return diag.BadUsage("--changed-since "+v.change+" is no time", "give a time such as 10m or 2h")
		}
	}
	return nil
}

// checkRepair refuses flags that say nothing together.
func (v *verifying) checkRepair() error {
	switch {
	case v.DryRun && !v.Repair:
		return diag.BadUsage("--dry-run says what --repair would do", "give --repair as well, or neither: a comparison writes no rows")
	case !v.Waits && (v.Repair || v.Report != ""):
		return diag.BadUsage("--repair and --report need the result", "leave out --wait=false")
	}
	return nil
}

// memoryOfVerify is what the command should get by with: sums of both sides, and pages that live for
// a moment, are about half of it.
const memoryOfVerify = 176 << 20

// verify runs a command with the configuration.
func (p *program) verify(ctx context.Context, v *verifying, do func(ctx context.Context, o *comparison.Operator) error) error {
	memory.Bound(memoryOfVerify)
	ctx, cancel := p.within(ctx)
	defer cancel()
	cfg, err := p.load()
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
		Long: `Compare source and target, both ways: items without a row, rows with other cells, rows of items that are gone, and cells in the families
of the mapping that nobody of ours wrote. Rows that several items share are compared with what all of them put there.

The comparison is divided into parts that this process and all workers share, so that it survives a stop of any of them: given again,
the command goes on where it was. A table that changes little is read once on each side into sums, and only what differs is looked at; one
that changes much is looked up page by page. Which way was taken, and why, is said.

A change that is under way is no difference: what differs is looked at again when everything of before is applied, and counts if it is
as it was. Workers have to follow the table for that. The limits of backfill, and those of throttle, bound what is read.

With --repair what differs is mended, each row exactly as it was compared and with the item as it is then: missing and different rows are
put, rows of items that are gone are removed. What changed since is left to its changes, and what is nobody's is left as it is, unless
the table is owned: true. Workers may go on, and a version never falls. Only a fresh comparison says that a table is clean again.

--report writes a line of JSON for each difference, with its key, and a page for people beside it, with keys as hashes; values are in
neither without --show-values.

The exit status is 3 if rows differ, or are left after a repair. The result is kept, and shown by status and by verify status.`,
		Example: `  replicator verify
  replicator verify --table Orders --sample 1%
  replicator verify --table Orders --changed-since 10m --show-values
  replicator verify --table Orders --repair --dry-run
  replicator verify --full --report verify.jsonl`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := v.scope(); err != nil {
				return err
			}
			if err := v.checkRepair(); err != nil {
				return err
			}
			return p.verify(c.Context(), &v, func(ctx context.Context, o *comparison.Operator) error { return o.Begin(ctx) })
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&v.Table, "table", "", "only this source `TABLE`")
	f.BoolVar(&v.full, "full", false, "compare everything; this is the default")
	f.StringVar(&v.sample, "sample", "", "compare a `SHARE` of the items, chosen by a hash of their keys, such as 1%")
	f.StringVar(&v.change, "changed-since", "", "compare only rows with cells of the last `DURATION`, such as 10m; says what it cannot find")
	f.BoolVar(&v.Repair, "repair", false, "mend what differs")
	f.BoolVar(&v.DryRun, "dry-run", false, "with --repair: say what it would do, and write nothing")
	f.StringVar(&v.Report, "report", "", "write a line of JSON for each difference to `FILE`, and a page beside it that ends in .html")
	f.BoolVar(&v.ShowValues, "show-values", false, "show keys and values of what differs, which is item data")
	f.BoolVar(&v.Waits, "wait", true, "work on the comparison and wait for its end; --wait=false leaves it to the workers")
	allowFlags(c, &v.Allowed)
	c.AddCommand(newVerifyStatus(p), newVerifyPause(p), newVerifyResume(p), newVerifyCancel(p))
	return c
}

func newVerifyStatus(p *program) *cobra.Command {
	var v verifying
	var schema bool
	c := &cobra.Command{
		Use:   "status [flags]",
		Short: "Show how far verifies are, and what they found",
		Long: `Show how far the verify of each table is, from any machine, or what the last one came to and found. A result that is more than a day old is
called stale: it says nothing of now.

The exit status is 0 if that could be read. --schema prints the JSON Schema of the document, which every verify command prints with
-o json.`,
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
	c.Flags().BoolVar(&schema, "schema", false, "print the JSON Schema of the document of -o json, and nothing else")
	allowEmulatorOfReader(c)
	return c
}

// newVerifyStep makes a command that steers verifies which are under way.
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
	return newVerifyStep(p, comparison.Pause, "Let verifies stand still",
		`Pause verifies. Workers finish the pages that they hold and take no further part; a command that waits for one ends.`,
		`  replicator verify pause --table Orders`)
}

func newVerifyResume(p *program) *cobra.Command {
	return newVerifyStep(p, comparison.Resume, "Let paused verifies go on",
		`Let verifies go on that are paused. Workers follow within seconds; replicator verify works on them too, and waits.`,
		`  replicator verify resume --table Orders`)
}

func newVerifyCancel(p *program) *cobra.Command {
	return newVerifyStep(p, comparison.Cancel, "End verifies without a result",
		`End verifies that are under way. They have no result; that of an earlier one stays.`,
		`  replicator verify cancel --table Orders`)
}
