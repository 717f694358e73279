package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/cost"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/plan"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

type planFlags struct {
	apply, exitCode, acceptMapping, adoptRows bool
	allowed                                   environment.Allowed

	sample   int
	prices   string
	printIAM string
}

func newPlan(p *program) *cobra.Command {
	var f planFlags
	c := &cobra.Command{
		Use:     "plan [flags]",
		Short:   "Compare config, DynamoDB and Bigtable; show changes, time and cost",
		GroupID: groupPrepare,
		Long: `Compare config, DynamoDB and Bigtable. Show what would be created, how long the copy takes and what
it costs.

Every dependency and permission is tested, each within five seconds, and shown as ✓ or ✗ with cause
and fix. A sample of each table's items shows their row keys, whether they can be mapped, and where
a new table is split.

Nothing is changed; reading the sample costs a few read units. --apply creates exactly what is
printed, the app profile included. If a run would be refused, it creates nothing.

Times and costs are estimates. DynamoDB's counts are up to six hours old. Unit prices are list
prices of one region at the printed date; --prices gives your own.

--print-iam prints the minimum permissions for this configuration, offline: a policy for AWS, or a custom role
for Google Cloud. Stderr lists what other commands and customer managed keys also need.`,
		Example: `  replicator plan
  replicator plan --apply
  replicator plan --print-iam aws > policy.json

  # status 3 if something would be created
  replicator plan --exit-code -o json`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := p.within(c.Context())
			defer cancel()
			return p.plan(ctx, f)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.BoolVar(&f.apply, "apply", false, "create what is printed")
	flags.BoolVar(&f.acceptMapping, "accept-mapping-change", false, "with --apply: accept a changed mapping; use this flag for run, too")
	flags.BoolVar(&f.adoptRows, "adopt-rows", false, "with --apply: accept a target table with rows; use this flag for run, too")
	flags.BoolVar(&f.exitCode, "exit-code", false, "end with status 3 if something would be created")
	flags.IntVar(&f.sample, "sample", preflight.DefaultSample, "`NUMBER` of items of each table to read, at most 100000; 0 reads none")
	flags.StringVar(&f.prices, "prices", "", "`FILE` of unit prices to use instead of the built-in ones")
	flags.StringVar(&f.printIAM, "print-iam", "", "print the minimum permissions for `CLOUD` (aws or gcp) and exit")
	allowFlags(c, &f.allowed)
	return c
}

// largestSample bounds --sample, because reading more items would be a copy, not a sample.
const largestSample = 100_000

func (p *program) plan(ctx context.Context, f planFlags) error {
	cfg, err := p.load()
	if err != nil {
		return err
	}
	if f.printIAM != "" {
		if err := oneOf("--print-iam", f.printIAM, []string{"aws", "gcp"}); err != nil {
			return err
		}
		return plan.PrintPrivileges(&p.Console, cfg, f.printIAM)
	}
	switch {
	case f.sample < 0 || f.sample > largestSample:
		return diag.BadUsage("--sample is out of bounds", fmt.Sprintf("give a number from 0 to %d", largestSample))
	case f.apply && f.exitCode:
		return diag.BadUsage("--apply and --exit-code exclude each other", "plan with --exit-code first, then apply")
	}
	prices, err := loadPrices(f.prices)
	if err != nil {
		return err
	}
	if err := environment.Check(p.Env, f.allowed).Err(); err != nil {
		return err
	}
	source, err := preflight.ConnectSource(ctx, cfg)
	if err != nil {
		return err
	}
	in := plan.Read(ctx, &p.Console, cfg, source, plan.Question{Apply: f.apply, AcceptMapping: f.acceptMapping, AdoptRows: f.adoptRows, Sample: f.sample, Prices: prices, Hints: p.withConfig()})
	defer in.Close()
	if ctx.Err() != nil {
		return terminal.Ended(ctx)
	}
	document := in.Judge()
	document.Render(in.Out)
	known, failed := in.Conclude(ctx, document)
	if p.AsJSON() {
		if err := p.WriteJSON(document); err != nil {
			return err
		}
	}
	switch {
	case failed != nil:
		return failed
	case known != nil:
		return &reported{known}
	case f.exitCode && len(document.Create) > 0:
		return &reported{&diag.Error{Code: diag.TargetTableMissing, What: "something would be created", Exit: diag.ExitNo}}
	}
	return nil
}

func loadPrices(path string) (cost.Prices, error) {
	if path == "" {
		return cost.Default(), nil
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return cost.Prices{}, &diag.Error{Code: diag.Usage, What: "--prices: the file cannot be read", Err: err, Fix: "give a file of unit prices"}
	}
	prices, err := cost.Override(content)
	if err != nil {
		return cost.Prices{}, &diag.Error{Code: diag.Usage, What: "--prices: " + path + " is not a file of unit prices", Err: err,
			Fix: "use the format of internal/cost/prices.yaml in the source code"}
	}
	return prices, nil
}
