package main

import "github.com/spf13/cobra"

func newRelay(p *program) *cobra.Command {
	var f runFlags
	var apply bool
	c := &cobra.Command{
		Use:     "relay [flags]",
		Short:   "Publish changes to Pub/Sub, for run --from pubsub to apply",
		GroupID: groupMigrate, Annotations: map[string]string{service: "true"},
		Long: `Copy the items of the tables as run does, and publish every change of their streams to
relay.pubsub_topic.

A change is published before the checkpoint passes it, as a CloudEvent in JSON with the images
before and after. Its ordering key is a hash of table and item key. After a crash changes are
published again, under the same id.

relay writes the copy of existing items, and every later load, to the target itself. --loads
publishes those items as well, each before its page counts as copied. Give it to every relay
process, before the load begins.

Without --apply, changes are written by any number of run --from pubsub processes, which pull
relay.subscription. Create that first: earlier messages can never be confirmed as applied. The table
is in sync when every published change is confirmed.

The ledger records the mode of each table. A process of another mode is refused: stop all processes
of the old mode, and start the new one with --accept-mode-change. A table that is no longer applied
from its topic needs a load.`,
		Example: `  replicator relay
  replicator relay --apply
  replicator relay --apply --loads

  # a table that run has followed so far
  replicator relay --apply --accept-mode-change`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			f.listenSet = c.Flags().Changed("listen")
			f.publish, f.noWrite = true, !apply
			if err := f.check(c.Flags().Changed("idle")); err != nil {
				return err
			}
			ctx, cancel := p.within(c.Context())
			defer cancel()
			return f.served(p.concluded(p.run(ctx, f)))
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.BoolVar(&apply, "apply", false, "write changes to the target too; else run --from pubsub does")
	flags.BoolVar(&f.loads, "loads", false, "publish the items that loads copy, too")
	f.bindOnce(flags)
	f.bind(c)
	return c
}
