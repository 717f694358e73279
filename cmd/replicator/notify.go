package main

import (
	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/notify"
)

func newNotify(p *program) *cobra.Command {
	c := group(&cobra.Command{
		Use:     "notify",
		Short:   "Test notifications",
		GroupID: groupOperate,
		Long: `Test the receivers of notify.to. The processes of replicator run send notifications of troubles and
steps to them.`,
		Example: `  replicator notify test`,
	})
	c.AddCommand(newNotifyTest(p))
	return c
}

func newNotifyTest(p *program) *cobra.Command {
	number := 0
	c := &cobra.Command{
		Use:   "test [flags]",
		Short: "Send a test to the receivers of notifications",
		Long: `Send a test to each receiver of notify.to, and ask the address of notify.heartbeat. Print the answers.

A test for PagerDuty opens an incident and resolves it. The exit status is 1 if a receiver does not
accept the test.`,
		Example: `  replicator notify test
  replicator notify test --to 2`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := p.within(c.Context())
			defer cancel()
			cfg, err := p.load()
			if err != nil {
				return err
			}
			return notify.Test(ctx, &p.Console, cfg, number, nil)
		},
	}
	c.Flags().IntVar(&number, "to", 0, "only the receiver with this `NUMBER` in notify.to, from 1 (default all)")
	return c
}
