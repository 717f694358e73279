package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/lever"
)

// pull runs pause or resume for one table.
func (p *program) pull(ctx context.Context, o lever.Operator, do func(*lever.Operator, context.Context) error) error {
	ctx, cancel := p.within(ctx)
	defer cancel()
	cfg, err := p.load()
	if err != nil {
		return err
	}
	o.Console, o.Cfg, o.With = &p.Console, cfg, p.withConfig()
	return do(&o, ctx)
}

func newPause(p *program) *cobra.Command {
	var o lever.Operator
	c := &cobra.Command{
		Use:     "pause --table TABLE [flags]",
		Short:   "Pause a table",
		GroupID: groupOperate,
		Long: `Pause all work on a table within seconds, on all machines: reading its stream, copies, sweeps,
verifies and publishing.

In-flight work is applied and committed first; other tables continue. A restart does not end the
pause. replicator status shows what is paused.

The stream keeps changes for 24 hours. Changes not read by then are lost, and the table needs a
load.`,
		Example: `  replicator pause --table Orders --reason "target is being resized"`,
		Args:    none,
		RunE:    func(c *cobra.Command, _ []string) error { return p.pull(c.Context(), o, (*lever.Operator).Pause) },
	}
	c.Flags().SortFlags = false
	c.Flags().StringVar(&o.Table, "table", "", "the source `TABLE`")
	c.Flags().StringVar(&o.Reason, "reason", "", "`TEXT` that status shows; at most 200 bytes")
	allowFlags(c, &o.Allowed)
	return c
}

func newResume(p *program) *cobra.Command {
	var o lever.Operator
	c := &cobra.Command{
		Use:     "resume --table TABLE [flags]",
		Short:   "Resume a paused table",
		GroupID: groupOperate,
		Long: `Resume a paused table from its checkpoints. If the stream has dropped changes meanwhile, the table
needs a load, and status says so.`,
		Example: `  replicator resume --table Orders`,
		Args:    none,
		RunE:    func(c *cobra.Command, _ []string) error { return p.pull(c.Context(), o, (*lever.Operator).Resume) },
	}
	c.Flags().SortFlags = false
	c.Flags().StringVar(&o.Table, "table", "", "the source `TABLE`")
	allowFlags(c, &o.Allowed)
	return c
}
