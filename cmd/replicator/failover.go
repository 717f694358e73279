package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/lever"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

func newFailover(p *program) *cobra.Command {
	o := lever.Failover{Console: &p.Console}
	c := &cobra.Command{
		Use:     "failover [flags]",
		Short:   "Go on after the target's cluster changed",
		GroupID: groupOperate,
		Long: `Go on in another cluster of the target, after its app profile was led there. Clusters copy from each other later, and in no order, so
that checkpoints may have arrived where rows have not: workers that are led to another cluster than their ledger's stop (R1404) until this
command decides.

It watches that nobody writes the ledger for a lease, and for as long as a worker needs to notice where it is led, 80 seconds; waits until
everything is copied from the former cluster, or finds it gone from the instance; has every table loaded again; and makes the ledger the new
cluster's. Where the former cluster does not answer any more, delete it first: what it delivers later would come over newer rows.

A planned move takes no load: stop every worker in order, lead the app profile to the other cluster, and give the command with
--workers-stopped-first. It is refused unless the ledger shows the same. The way back is the same command, after the app profile was led back.`,
		Example: `  replicator failover --dry-run
  replicator failover --yes
  replicator failover --workers-stopped-first --yes`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := p.within(c.Context())
			defer cancel()
			cfg, err := p.load()
			if err != nil {
				return err
			}
			o.Cfg, o.With = cfg, p.withConfig()
			o.Confirm = func(ctx context.Context, question string) error {
				return terminal.Confirm(ctx, os.Stdin, p.Stderr, question)
			}
			return o.Run(ctx)
		},
	}
	c.Flags().SortFlags = false
	c.Flags().BoolVar(&o.StoppedFirst, "workers-stopped-first", false, "every worker had stopped before the app profile was led elsewhere: positions hold")
	c.Flags().DurationVar(&o.StillFor, "still-for", 0, "how long nobody may write the ledger; default state.lease and 80s, at least state.lease")
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "say what it would take, and change nothing")
	c.Flags().BoolVar(&o.Yes, "yes", false, "do not ask")
	allowFlags(c, &o.Allowed)
	return c
}
