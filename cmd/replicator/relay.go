package main

import "github.com/spf13/cobra"

func newRelay(p *program) *cobra.Command {
	var f runFlags
	var apply bool
	c := &cobra.Command{
		Use:     "relay [flags]",
		Short:   "Publish changes to Pub/Sub, for run --from pubsub to apply",
		GroupID: groupMigrate, Annotations: map[string]string{service: "true"},
		Long: `Copy the items of the tables as run does, and publish every change of their streams to the topic of relay.pubsub_topic.

A change is published before the checkpoint passes it. Each is a CloudEvent in JSON with the images before and after; its ordering key is a
hash of table and item key. After a crash changes are published again, under the same id.

The copy of existing items is written to the target by relay itself, and so is every later load. With --loads the items are published as well,
each before its page counts as copied, so that a consumer of the topic gets the whole table. Give it to every process of relay, before the load begins.

Without --apply changes are written by processes of run --from pubsub, any number of them, which pull relay.subscription. It must exist before
relay begins, or what is published before is never known to be applied. The table is in sync when all that is published is known to be applied.
With --apply relay writes every change to the target as well, and the topic is for others.

The ledger keeps which way changes take. A command of another is refused: stop all processes of the one, and start the other with
--accept-mode-change. A table that is not applied from its topic any more needs a load.`,
		Example: `  replicator relay
  replicator relay --apply
  replicator relay --apply --loads
  replicator relay --apply --accept-mode-change  # a table that run has followed so far`,
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
