package main

import (
	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/lever"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

func newFailover(p *program) *cobra.Command {
	o := lever.Failover{Console: &p.Console}
	c := &cobra.Command{
		Use:     "failover [flags]",
		Short:   "Continue in another cluster of the target or region of the source",
		GroupID: groupOperate,
		Long: `Continue in another cluster, after the app profile was routed there. Workers stop (R1404) until this
command has run.

Cluster replication is asynchronous and unordered: the new cluster may have checkpoints without
their rows.

The command waits until nothing has written the ledger for --still-for. It also waits until
everything is copied from the former cluster, or that cluster is deleted. Then the ledger belongs to
the new cluster, and every table is loaded again.

If the former cluster does not answer, delete it first. Otherwise its late replication would
overwrite newer rows.

A planned move needs no load. Stop every worker, route the app profile to the other cluster, then
run this with --workers-stopped-first. It is refused unless the ledger confirms the stop. To move
back, do the same.

A running cutover is cancelled. After the switch it continues in the new cluster instead. If the
ledger does not show whether the application has switched, give the answer with --switched.

With --source-region the tables are read in another region of a DynamoDB global table, for example
after the region of the source has failed. Stop every worker first. Every table is loaded again.
Without this command, workers that find the tables in another region stop (R1406).`,
		Example: `  replicator failover --dry-run
  replicator failover --yes
  replicator failover --workers-stopped-first --yes
  replicator failover --switched no --yes
  replicator failover --source-region us-east-1 --yes`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := p.within(c.Context())
			defer cancel()
			cfg, err := p.load()
			if err != nil {
				return err
			}
			o.Cfg, o.With = cfg, p.withConfig()
			o.Confirm = terminal.Asking(p.Stderr)
			return o.Run(ctx)
		},
	}
	c.Flags().SortFlags = false
	c.Flags().BoolVar(&o.StoppedFirst, "workers-stopped-first", false, "confirm that every worker had stopped before the app profile was rerouted")
	c.Flags().StringVar(&o.Switched, "switched", "", "`yes|no`: whether a cutover has switched the application")
	c.Flags().StringVar(&o.SourceRegion, "source-region", "", "`REGION` in which the source tables are read from now on")
	c.Flags().DurationVar(&o.StillFor, "still-for", 0, "`DURATION` without writes to the ledger that is required (default state.lease plus 80s)")
	c.Flags().BoolVar(&o.DryRun, "dry-run", false, "show whether tables need a load; change nothing")
	c.Flags().BoolVar(&o.Yes, "yes", false, "do not ask")
	allowFlags(c, &o.Allowed)
	return c
}
