package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/itemkey"
	"github.com/dynamodb-bigtable/replicator/internal/parked"
)

func newParkedRetry(p *program) *cobra.Command {
	var s parked.Selection
	var allowed environment.Allowed
	c := &cobra.Command{
		Use:   "retry [REF…] [flags]",
		Short: "Read parked items from the source again, and store them",
		Long: `Read parked items from the source again, and store them as they are now. The parked change itself is
never replayed.

The row is replaced only if it did not change since the item was read, so a change from the stream
wins. If the source no longer has the item, the entry is resolved and the row stays removed. With
expire: keep, a row that is at least as new as the parked change stays.

If an item still cannot be mapped, it stays parked and the exit status is 3. Workers may keep
running. Retrying twice does no harm.

` + parked.RefHelp,
		Example: `  replicator parked retry Orders/2c26b46b68ffc68ff99b453c1d304134
  replicator parked retry --table Orders --key '{"PK":"hats","SK":"fedoras"}'
  replicator parked retry --table Orders --all`,
		RunE: func(c *cobra.Command, args []string) error {
			s.Refs = args
			if err := s.Check(c.CommandPath()); err != nil {
				return err
			}
			return p.decide(c.Context(), parked.RetryCommand, &s, allowed, (*parked.Decision).Retry)
		},
	}
	selectFlags(c, &s, &allowed)
	return c
}

// selectFlags adds the flags of commands that change the selected records.
func selectFlags(c *cobra.Command, s *parked.Selection, allowed *environment.Allowed) {
	flags := c.Flags()
	flags.SortFlags = false
	flags.BoolVar(&s.All, "all", false, "every parked item, or all of --table")
	flags.StringVar(&s.Table, "table", "", "only this source `TABLE`")
	flags.StringVar(&s.Key, "key", "", itemkey.Help)
	flags.StringVar(&s.Reason, "reason", "", "every parked item whose reason contains `TEXT`")
	allowFlags(c, allowed)
}

// decide selects the records and carries out a command's decision about them.
func (p *program) decide(ctx context.Context, command string, s *parked.Selection, allowed environment.Allowed, act func(d *parked.Decision, ctx context.Context) error) error {
	return p.withParking(ctx, func(ctx context.Context, cfg *config.Config) error {
		log, err := p.logger(cfg, p.Stderr)
		if err != nil {
			return err
		}
		d := &parked.Decision{Console: &p.Console, Cfg: cfg, Allowed: allowed, Log: log}
		return d.Decide(ctx, command, s, act)
	})
}
