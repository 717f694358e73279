package main

import (
	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

func newRelay(p *program) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:     "relay --apply [flags]",
		Short:   "Publish changes to Pub/Sub, and apply them",
		GroupID: groupMigrate,
		Long: `Do what run does, and publish every change of the streams to the topic of relay.pubsub_topic as well.

A change is published before its row is written, and both are durable before the checkpoint passes it. Each is a CloudEvent in JSON with the
images before and after; its ordering key is a hash of table and item key. After a crash changes are published again, under the same id.
The copy of existing items is not published.

The ledger keeps which command works on a table. run is refused where relay --apply does, and the other way round: stop all processes of the
one, and start the other with --accept-mode-change.`,
		Example: `  replicator relay --apply
  replicator relay --apply --accept-mode-change  # a table that run has followed so far`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			f.listenSet = c.Flags().Changed("listen")
			if !f.publish {
				return &diag.Error{Code: diag.NotAvailable, What: "replicator relay without --apply is known, but not available in this version",
					Cause: "nothing applies changes from a topic yet", Fix: "add --apply: changes are published, and written to the target"}
			}
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
	flags.BoolVar(&f.publish, "apply", false, "write changes to the target too")
	f.bindOnce(flags)
	f.bind(c)
	return c
}
