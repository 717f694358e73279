package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/parked"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

func newParkedDrop(p *program) *cobra.Command {
	var s parked.Selection
	var allowed environment.Allowed
	var yes bool
	c := &cobra.Command{
		Use:   "drop [REF…] [flags]",
		Short: "Discard parked items",
		Long: `Remove the records of parked items without storing the items. Nothing is deleted in the source.

The item's rows were removed when it was parked. They stay removed until the item changes in the
source or is loaded again. Then it may be parked again.

Each drop is logged without item data. The content cannot be restored. A REF with a version drops
only the record of that version.

` + parked.RefHelp,
		Example: `  replicator parked drop Orders/2c26b46b68ffc68ff99b453c1d304134
  replicator parked drop --table Orders --reason 'attribute name' --yes`,
		RunE: func(c *cobra.Command, args []string) error {
			s.Refs = args
			if err := s.Check(c.CommandPath()); err != nil {
				return err
			}
			if !yes && !terminal.Interactive() {
				return diag.BadUsage("replicator parked drop needs confirmation, but there is no terminal", "add --yes")
			}
			return p.decide(c.Context(), parked.DropCommand, &s, allowed, func(d *parked.Decision, ctx context.Context) error { return d.Drop(ctx, yes) })
		},
	}
	selectFlags(c, &s, &allowed)
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	return c
}
