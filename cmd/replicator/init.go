package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/starter"
)

type initFlags struct {
	from                  []string
	minimal, write, force bool
}

func newInit(p *program) *cobra.Command {
	var f initFlags
	c := &cobra.Command{
		Use:     "init [flags]",
		Short:   "Write a first config from existing tables",
		GroupID: groupPrepare,
		Long: `Write a starter config for DynamoDB tables. Read it and change it.

It has rules for tables with several types of items, and the time-to-live attribute. Comments point
out hot row keys, and tables that one pattern could match.

It reads about 200 items of each table. It writes to neither side and does not contact Bigtable. The
config has no item data, except prefixes of keys that look like names of types.

It needs the permissions dynamodb:DescribeTable, Scan and DescribeTimeToLive, and ListTables unless
you name every table.`,
		Example: `  replicator init --from 'Video*' > replicator.yaml
  replicator init --write
  replicator init --from Orders --minimal`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := p.within(c.Context())
			defer cancel()
			return p.init(ctx, f)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&f.from, "from", nil, "source `TABLES`: names, or patterns with * (default all of the region)")
	flags.BoolVar(&f.minimal, "minimal", false, "write only required keys: no rules, no comments")
	flags.BoolVar(&f.write, "write", false, "write the file of -c instead of stdout (default ./replicator.yaml)")
	flags.BoolVar(&f.force, "force", false, "with --write, replace a file that exists")
	return c
}

func (p *program) init(ctx context.Context, f initFlags) error {
	file := p.configPath
	if file == "" {
		file = "replicator.yaml"
	}
	if f.force && !f.write {
		return diag.BadUsage("--force needs --write", "without --write the config goes to stdout")
	}
	if f.write && !f.force {
		if err := starter.Absent(file); err != nil {
			return err
		}
	}
	if err := environment.Check(p.Env, environment.Anything).Err(); err != nil {
		return err
	}
	src, err := preflight.ConnectSource(ctx, &config.Config{})
	if err != nil {
		return err
	}
	tables, err := starter.Read(ctx, src, f.from, f.minimal)
	if err != nil {
		return err
	}
	project, _ := p.Env("GOOGLE_CLOUD_PROJECT")
	proposal := starter.Propose(src.Region, starter.Target{Project: project}, tables, f.minimal)
	if !f.write {
		return proposal.Render(&p.Console, "")
	}
	if err := proposal.Save(file, f.force); err != nil {
		return err
	}
	return proposal.Render(&p.Console, file)
}
