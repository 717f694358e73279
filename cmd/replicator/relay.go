package main

import "github.com/spf13/cobra"

func newRelay(p *program) *cobra.Command {
	var f runFlags
	var apply bool
	c := &cobra.Command{
		Use:     "relay [flags]",
		Short:   "Publish changes to Pub/Sub, for run --from pubsub to apply",
		GroupID: groupMigrate, Annotations: map[string]string{service: "true"},
		Long: `Publish every change of the tables' streams to relay.pubsub_topic, and copy their existing items as
run does.

Each message is a CloudEvent in JSON with the item before and after the change. Its subject is a hash
of table and item key, and its ordering key one of relay.ordering_buckets buckets of that hash. After
a crash some changes are published again, with the same id.

relay itself writes existing items to the target, also in every later load. --loads also publishes
these items. Give --loads to every relay process before a load begins.

Without --apply, processes of run --from pubsub pull relay.subscription and write the changes.
Create the subscription first: earlier messages can never be confirmed as applied. The table is in
sync when every published change is confirmed.

The ledger records the mode of each table, and a process of another mode is refused. To change it,
stop all processes, then start one in the new mode with --accept-mode-change. A table that is no longer
applied from its topic needs a load.`,
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
	flags.BoolVar(&apply, "apply", false, "also write changes to the target, instead of run --from pubsub")
	flags.BoolVar(&f.loads, "loads", false, "also publish the items that loads copy")
	f.bindOnce(flags)
	f.bind(c)
	c.AddCommand(newDeadLetter(p))
	return c
}
