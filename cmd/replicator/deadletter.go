package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/deadletter"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

func newDeadLetter(p *program) *cobra.Command {
	c := group(&cobra.Command{
		Use:   "dead-letter",
		Short: "List or drop messages in the dead-letter topic",
		Long: `List or drop the messages in the dead-letter topic, by the subscription relay.dead_letter. While it
holds a message, no table is in sync.

  missing   the relay published the change, and it is not known to be applied
  applied   the change was applied since, or a load covers it
  refused   the ledger does not have it: nobody but the relay should publish to the topic
  foreign   it is no message of this migration`,
		Example: `  replicator relay dead-letter list`,
	})
	c.AddCommand(newDeadLetterList(p), newDeadLetterDrop(p))
	return c
}

func newDeadLetterList(p *program) *cobra.Command {
	var s deadletter.Selection
	c := &cobra.Command{
		Use:   "list [flags]",
		Short: "List the messages, and leave them there",
		Long: `List the messages in the dead letter with their states and reasons. No item data is shown. The
messages stay where they are.

Pub/Sub may not show all messages at once.`,
		Example: `  replicator relay dead-letter list`,
		Args:    none,
		RunE: func(c *cobra.Command, _ []string) error {
			return p.letters(c.Context(), &deadletter.Operator{}, func(o *deadletter.Operator, ctx context.Context) error { return o.List(ctx, &s) })
		},
	}
	c.Flags().SortFlags = false
	c.Flags().StringVar(&s.Table, "table", "", "only of this source `TABLE`")
	allowEmulatorOfReader(c)
	return c
}

func newDeadLetterDrop(p *program) *cobra.Command {
	var s deadletter.Selection
	var dry, yes bool
	var o deadletter.Operator
	c := &cobra.Command{
		Use:   "drop [REF…] [flags]",
		Short: "Remove messages for good, without applying them",
		Long: `Remove messages from the dead letter for good. Their changes are not applied.

A message in state missing is a change that its row does not have. Repair the row with
replicator verify --repair, and load the table: until then it is not in sync. The command prints
both commands. Messages in the other states can be dropped without loss.

Each drop is logged without item data.

` + deadletter.RefHelp,
		Example: `  replicator relay dead-letter drop --state refused --dry-run
  replicator relay dead-letter drop --all`,
		RunE: func(c *cobra.Command, args []string) error {
			s.Refs = args
			if err := s.Check(c.CommandPath()); err != nil {
				return err
			}
			if !dry && !yes && !terminal.Interactive() {
				return diag.BadUsage("replicator relay dead-letter drop needs confirmation, but there is no terminal", "add --yes")
			}
			return p.letters(c.Context(), &o, func(o *deadletter.Operator, ctx context.Context) error { return o.Drop(ctx, &s, dry, yes) })
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.BoolVar(&s.All, "all", false, "every message, of --table if that is given")
	flags.StringVar(&s.Table, "table", "", "only of this source `TABLE`")
	flags.StringVar(&s.State, "state", "", "every message in this `STATE`")
	flags.BoolVar(&dry, "dry-run", false, "show what would be dropped")
	flags.BoolVar(&yes, "yes", false, "do not ask")
	allowFlags(c, &o.Allowed)
	return c
}

// letters runs a command about the dead letter.
func (p *program) letters(ctx context.Context, o *deadletter.Operator, do func(o *deadletter.Operator, ctx context.Context) error) error {
	ctx, cancel := p.within(ctx)
	defer cancel()
	cfg, err := p.load()
	if err != nil {
		return err
	}
	o.Console, o.Cfg, o.With = &p.Console, cfg, p.withConfig()
	if o.Log, err = p.logger(cfg, p.Stderr); err != nil {
		return err
	}
	return do(o, ctx)
}
