package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/inspect"
	"github.com/dynamodb-bigtable/replicator/internal/itemkey"
)

func newExplain(p *program) *cobra.Command {
	var table, key string
	var values bool
	c := &cobra.Command{
		Use:     "explain [flags]",
		Short:   "Compare one item on both sides, and explain the difference",
		GroupID: groupOperate,
		Long: `Compare one item on both sides, and explain the difference. Nothing is changed, and no worker needs
to run.

It shows whether the source has the item, its row, the version in the target, the columns that
differ and the parked changes. A verdict names the likely reason: in flight, parked, a phantom
write, a foreign writer, garbage collection, or a gap.

If the two differ while a worker follows the stream, both are read again after the lag has passed.

The output always has the row key, which is item data. Other values need --show-values. The exit
status is 0 if both sides could be read.`,
		Example: `  replicator explain --table Orders --key '{"PK":"hats","SK":"fedoras"}'
  replicator explain --table Orders --key '{"PK":"hats","SK":"fedoras"}' \
    --show-values -o json`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			if key == "" {
				return diag.BadUsage("explain needs the key of an item", `give --key '{"PK":"…","SK":"…"}'`)
			}
			ctx, cancel := p.within(c.Context())
			defer cancel()
			return p.explain(ctx, table, key, values)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&table, "table", "", "source `TABLE`; may be left out if the configuration has only one")
	flags.StringVar(&key, "key", "", itemkey.Help)
	flags.BoolVar(&values, "show-values", false, "show the values of cells, which are item data")
	allowEmulatorOfReader(c)
	return c
}

func (p *program) explain(ctx context.Context, table, key string, values bool) error {
	cfg, err := p.load()
	if err != nil {
		return err
	}
	t, err := chosenTable(cfg, table)
	if err != nil {
		return err
	}
	e, err := inspect.Explain(ctx, &p.Console, cfg, desk.Ends{}, p.withConfig(), t, key, values)
	if err != nil {
		return err
	}
	if p.AsJSON() {
		return p.WriteJSON(e)
	}
	return p.Show(p.Stdout, e.Render)
}
