package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/inspect"
	"github.com/dynamodb-bigtable/replicator/internal/itemkey"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
)

type previewFlags struct {
	inspect.Choice
	table, as string
}

func newPreview(p *program) *cobra.Command {
	var f previewFlags
	c := &cobra.Command{
		Use:     "preview [flags]",
		Short:   "Show the row and cells of an item",
		GroupID: groupPrepare,
		Long: `Show the row and cells of an item, and the config line behind each. Nothing is written, and
Bigtable is not contacted.

The item comes from the source by its key (--key), from the first items of a scan (--sample), or
from a file in DynamoDB's JSON (--item). The file is the output of "aws dynamodb get-item" or "scan",
or a file of an export to S3, with or without gzip.

--item with --primary-key works offline, without an account. Cells have the time of this read; a
real copy or change would use its own time. The output is item data.

If an item cannot be mapped, the reason is shown and the exit status is 3. A migration would park
that item.`,
		Example: `  replicator preview --table Orders --key '{"PK":"hats","SK":"fedoras"}'
  replicator preview --table Orders --sample 20 --as cbt
  replicator preview --table Orders --item item.json \
    --primary-key PK,SK -o json
  replicator preview --table Orders --item export.json.gz --sample 20 \
    --primary-key PK,SK`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			ctx, cancel := p.within(c.Context())
			defer cancel()
			return p.preview(ctx, f)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.table, "table", "", "source `TABLE`; may be left out if the configuration has only one")
	flags.StringVar(&f.Key, "key", "", itemkey.Help)
	flags.StringVar(&f.File, "item", "", "`FILE` with one or more items in DynamoDB's JSON; - is stdin")
	flags.IntVar(&f.Sample, "sample", 0, "the first `NUMBER` of items of a scan, or of the file of --item; at most 1000")
	flags.StringVar(&f.PrimaryKey, "primary-key", "", "`NAMES` of partition key and sort key, separated by a comma; for --item offline")
	flags.StringVar(&f.as, "as", "text", "`FORM` of rows: text, cbt (as `cbt read` prints them) or json")
	allowEmulatorOfReader(c)
	return c
}

func (f *previewFlags) check() error {
	if err := oneOf("--as", f.as, []string{"text", "cbt", "json"}); err != nil {
		return err
	}
	switch {
	case f.Key == "" && f.File == "" && f.Sample == 0, f.Key != "" && (f.File != "" || f.Sample != 0):
		return diag.BadUsage("preview shows one of --key, --item and --sample", "for example --sample 5")
	case f.Sample < 0 || f.Sample > 1000:
		return diag.BadUsage("--sample is not between 1 and 1000", "for example --sample 20")
	case f.PrimaryKey != "" && f.File == "":
		return diag.BadUsage("--primary-key needs --item", "leave it out: the source knows its primary key")
	}
	return nil
}

// chosenTable returns the named table, or the only table of the configuration.
func chosenTable(cfg *config.Config, name string) (config.Table, error) {
	if name == "" && cfg.HasPatterns() {
		return config.Table{}, diag.BadUsage("the configuration has a pattern of tables", "name one of the tables with --table")
	}
	if name == "" && len(cfg.Tables) == 1 {
		return cfg.Tables[0], nil
	}
	if name == "" {
		return config.Table{}, diag.BadUsage("the configuration has several tables", "name one with --table")
	}
	if err := preflight.KnownTable(cfg, name); err != nil {
		return config.Table{}, err
	}
	t, _ := cfg.Table(name)
	return t, nil
}

func (p *program) preview(ctx context.Context, f previewFlags) error {
	cfg, err := p.load()
	if err != nil {
		return err
	}
	t, err := chosenTable(cfg, f.table)
	if err != nil {
		return err
	}
	previews, err := inspect.Previews(ctx, p.Env, cfg, t, f.Choice)
	if err != nil {
		return err
	}
	if p.AsJSON() {
		f.as = "json"
	}
	return inspect.ShowPreviews(&p.Console, previews, f.as)
}
