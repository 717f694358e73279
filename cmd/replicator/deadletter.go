package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/deadletter"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

func newDeadLetter(p *program) *cobra.Command {
	c := group(&cobra.Command{
		Use: "dead-letter", Short: "List or drop messages in the dead-letter topic", Long: deadletter.Help,
		Example: `  replicator relay dead-letter list`,
	})
	c.AddCommand(newDeadLetterList(p), newDeadLetterDrop(p))
	return c
}

func newDeadLetterList(p *program) *cobra.Command {
	var s deadletter.Selection
	c := &cobra.Command{
		Use: "list [flags]", Short: "List the messages, and leave them there", Long: deadletter.ListHelp, Args: none,
		Example: `  replicator relay dead-letter list`,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.letters(c.Context(), environment.Allowed{}, func(o *deadletter.Operator, ctx context.Context) error { return o.List(ctx, &s) })
		},
	}
	c.Flags().StringVar(&s.Table, "table", "", "only of this source `TABLE`")
	allowEmulatorOfReader(c)
	return c
}

func newDeadLetterDrop(p *program) *cobra.Command {
	var s deadletter.Selection
	var allowed environment.Allowed
	var dry, yes bool
	c := &cobra.Command{
		Use: "drop [REF…] [flags]", Short: "Remove messages permanently, without applying them", Long: deadletter.DropHelp,
		Example: `  replicator relay dead-letter drop --state refused --dry-run
  replicator relay dead-letter drop --all`,
		RunE: func(c *cobra.Command, args []string) error {
			s.Refs = args
			if err := s.Check(c.CommandPath()); err != nil {
				return err
			}
			if !dry && !yes && !terminal.Interactive() {
				return diag.BadUsage(c.CommandPath()+" needs confirmation, but there is no terminal", "add --yes")
			}
			return p.letters(c.Context(), allowed, func(o *deadletter.Operator, ctx context.Context) error { return o.Drop(ctx, &s, dry, yes) })
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.BoolVar(&s.All, "all", false, "every message, or all of --table")
	flags.StringVar(&s.Table, "table", "", "only of this source `TABLE`")
	flags.StringVar(&s.State, "state", "", "every message in this `STATE`")
	flags.BoolVar(&dry, "dry-run", false, "show what would be dropped")
	flags.BoolVar(&yes, "yes", false, "do not ask")
	allowFlags(c, &allowed)
	return c
}

// letters loads the configuration and calls do with an operator for the dead-letter topic.
func (p *program) letters(ctx context.Context, allowed environment.Allowed, do func(o *deadletter.Operator, ctx context.Context) error) error {
	return p.withParking(ctx, func(ctx context.Context, cfg *config.Config) error {
		log, err := p.logger(cfg, p.Stderr)
		if err != nil {
			return err
		}
		return do(&deadletter.Operator{Console: &p.Console, Cfg: cfg, Log: log, Allowed: allowed, With: p.withConfig()}, ctx)
	})
}
