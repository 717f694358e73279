package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/itemkey"
	"github.com/dynamodb-bigtable/replicator/internal/parked"
)

func newParked(p *program) *cobra.Command {
	c := group(&cobra.Command{
		Use:     "parked",
		Short:   "List, show, retry or drop items that could not be mapped",
		GroupID: groupOperate,
		Long: `List items that could not be mapped or stored, and retry or drop them. The ledger keeps each item
with its reason.

The item's former row is removed from the target, so that readers see no stale data. Only the last
parked change of an item is kept.

A later change that can be stored resolves the entry, and so does the item's removal. Otherwise
correct the cause and retry, or drop the entry.`,
		Example: `  replicator parked list
  replicator parked retry --table Orders --all`,
	})
	c.AddCommand(newParkedList(p), newParkedShow(p), newParkedRetry(p), newParkedDrop(p))
	return c
}

func newParkedList(p *program) *cobra.Command {
	var s parked.Selection
	c := &cobra.Command{
		Use:   "list [flags]",
		Short: "List parked items without their content",
		Long: `List parked items: table, short hash of the key, time and reason. No item data is shown.

-o json shows whole references.`,
		Example: `  replicator parked list --table Orders
  replicator parked list -o json | jq -r '.items[].ref'`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			s.All = true
			return p.withParking(c.Context(), func(ctx context.Context, cfg *config.Config) error {
				return parked.List(ctx, &p.Console, cfg, &s)
			})
		},
	}
	c.Flags().StringVar(&s.Table, "table", "", "only this source `TABLE`")
	c.Flags().StringVar(&s.Reason, "reason", "", "only items whose reason contains `TEXT`")
	allowEmulatorOfReader(c)
	return c
}

func newParkedShow(p *program) *cobra.Command {
	var s parked.Selection
	c := &cobra.Command{
		Use:   "show [REF] [flags]",
		Short: "Show one parked item in full, as JSON",
		Long: `Show a parked item as JSON: its key, its reason, and the change with its images in DynamoDB JSON.

` + parked.RefHelp + `

The output is item data.`,
		Example: `  replicator parked show Orders/2c26b46b68ffc68ff99b453c1d304134
  replicator parked show --table Orders --key '{"PK":"hats","SK":"fedoras"}'`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 && s.Key == "" {
				return diag.BadUsage("replicator parked show needs the item to show", "take one from `replicator parked list`, or give --table and --key")
			}
			return atMost(1)(c, args)
		},
		RunE: func(c *cobra.Command, args []string) error {
			s.Refs = args
			if err := s.Check(c.CommandPath()); err != nil {
				return err
			}
			return p.withParking(c.Context(), func(ctx context.Context, cfg *config.Config) error {
				return parked.Show(ctx, &p.Console, cfg, &s)
			})
		},
	}
	c.Flags().StringVar(&s.Table, "table", "", "source `TABLE` of --key")
	c.Flags().StringVar(&s.Key, "key", "", itemkey.Help)
	allowEmulatorOfReader(c)
	return c
}

// withParking runs a command about parked items with the configuration.
func (p *program) withParking(ctx context.Context, f func(ctx context.Context, cfg *config.Config) error) error {
	ctx, cancel := p.within(ctx)
	defer cancel()
	cfg, err := p.load()
	if err != nil {
		return err
	}
	return f(ctx, cfg)
}
