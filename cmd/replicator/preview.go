package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/itemfile"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// previewFlags are what preview is asked to show.
type previewFlags struct {
	table, key, item, primaryKey, as string

	sample int
}

func newPreview(p *program) *cobra.Command {
	var f previewFlags
	c := &cobra.Command{
		Use:     "preview [flags]",
		Short:   "Show the row and cells of an item",
		GroupID: groupPrepare,
		Long: `Show the row and the cells of an item, and the line of the configuration that decides. Nothing is written, and Bigtable is not
contacted.

The item is read from the source by its key (--key), from the first items of a scan (--sample), or from a file in DynamoDB's JSON
(--item), as "aws dynamodb get-item" prints it or an export to S3 contains it, with or without gzip. With --item and --primary-key it
works offline, without an account. Cells show the time at which the item was read; a copy or a change writes its own time. This shows
item data on stdout.

If an item cannot be mapped, the reason is shown and the exit status is 3: a migration would park it.`,
		Example: `  replicator preview --table Orders --key '{"PK":"hats","SK":"fedoras"}'
  replicator preview --table Orders --sample 20 --as cbt
  replicator preview --table Orders --item item.json --primary-key PK,SK -o json
  replicator preview --table Orders --item export.json.gz --sample 20 --primary-key PK,SK`,
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
	flags.StringVar(&f.key, "key", "", preflight.KeyHelp)
	flags.StringVar(&f.item, "item", "", "`FILE` with one or more items in DynamoDB's JSON; - is stdin")
	flags.IntVar(&f.sample, "sample", 0, "the first `NUMBER` of items of a scan, or of the file of --item; at most 1000")
	flags.StringVar(&f.primaryKey, "primary-key", "", "`NAMES` of the partition key and the sort key, with a comma between; with --item, so that the source is not contacted")
	flags.StringVar(&f.as, "as", "text", "`FORM` of rows: text, cbt (as `cbt read` prints them) or json")
	allowEmulatorOfReader(c)
	return c
}

func (f *previewFlags) check() error {
	if err := oneOf("--as", f.as, []string{"text", "cbt", "json"}); err != nil {
		return err
	}
	switch {
	case f.key == "" && f.item == "" && f.sample == 0, f.key != "" && (f.item != "" || f.sample != 0):
		return diag.BadUsage("preview shows one of --key, --item and --sample", "for example --sample 5")
	case f.sample < 0 || f.sample > 1000:
		return diag.BadUsage("--sample is not between 1 and 1000", "for example --sample 20")
	case f.primaryKey != "" && f.item == "":
		return diag.BadUsage("--primary-key goes with --item", "the source knows its own key")
	}
	return nil
}

// chosenTable is the table that was named, or the only one of the configuration.
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
	var m *transform.Mapping
	var items []attribute.Item
	if f.item != "" {
		m, items, err = p.itemsOfFile(ctx, cfg, t, f)
	} else {
		m, items, err = p.itemsOfSource(ctx, cfg, t, f)
	}
	if err != nil {
		return err
	}
	return p.showPreviews(f, previewsOf(m, cfg, t, items, time.Now()))
}

// itemsOfSource reads one item by its key, or the first ones of a scan.
func (p *program) itemsOfSource(ctx context.Context, cfg *config.Config, t config.Table, f previewFlags) (*transform.Mapping, []attribute.Item, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, preflight.ReadTime, preflight.ErrReadTime)
	defer cancel()
	src, found, err := p.openTable(ctx, cfg, t)
	if err != nil {
		return nil, nil, err
	}
	if f.sample > 0 {
		page, err := src.Tables.Scan(ctx, t.From, 0, 1, attribute.Item{}, f.sample)
		if err != nil {
			return nil, nil, preflight.ExplainSource("cannot scan table "+t.From, t.From, err)
		}
		return found.Mapping, page.Items, nil
	}
	key, err := preflight.ParseKey(f.key, found.Description.PrimaryKey)
	if err != nil {
		return nil, nil, err
	}
	item, ok, err := src.Tables.Get(ctx, t.From, key)
	switch {
	case err != nil:
		return nil, nil, preflight.ExplainSource("cannot read an item of table "+t.From, t.From, err)
	case !ok:
		return nil, nil, &diag.Error{Code: diag.ItemNotFound, What: "table " + t.From + " has no item with this key"}
	}
	return found.Mapping, []attribute.Item{item}, nil
}

// openTable connects to the source and describes one table. That may be an emulator's, which is said.
func (p *program) openTable(ctx context.Context, cfg *config.Config, t config.Table) (*preflight.Source, preflight.Table, error) {
	if err := config.CheckEnvironment(p.Env, config.Anything).Err(); err != nil {
		return nil, preflight.Table{}, err
	}
	src, err := preflight.ConnectSource(ctx, cfg)
	if err != nil {
		return nil, preflight.Table{}, err
	}
	limited, cancel := context.WithTimeout(ctx, preflight.ProbeTime)
	defer cancel()
	found, err := preflight.DescribeTable(limited, src.Tables, t)
	return src, found, err
}

// itemsOfFile reads items of a file. The key schema is the one named, with the types that the items have, or the source's.
func (p *program) itemsOfFile(ctx context.Context, cfg *config.Config, t config.Table, f previewFlags) (*transform.Mapping, []attribute.Item, error) {
	items, err := readItems(f.item, f.sample)
	if err != nil {
		return nil, nil, err
	}
	if f.primaryKey == "" {
		_, found, err := p.openTable(ctx, cfg, t)
		if err != nil {
			var known *diag.Error
			if errors.As(err, &known) && known.Fix == "" {
				known.Fix = "or give --primary-key PK,SK with the names of the table's key attributes: then the source is not asked"
			}
			return nil, nil, err
		}
		return found.Mapping, items, nil
	}
	var schema []transform.KeyAttribute
	for name := range strings.SplitSeq(f.primaryKey, ",") {
		v, ok := items[0].Get(name)
		if !ok {
			return nil, nil, diag.BadUsage(fmt.Sprintf("the item has no attribute %q, which --primary-key names", name), "give the names as the table has them, for example --primary-key PK,SK")
		}
		schema = append(schema, transform.KeyAttribute{Name: name, Type: v.Kind()})
	}
	m, err := preflight.MapTable(t, schema)
	var found diag.List
	if errors.As(err, &found) {
		return nil, nil, err // each with its own place and fix
	}
	if err != nil {
		return nil, nil, &diag.Error{Code: diag.Usage, What: "--primary-key does not fit the item", Err: err, Fix: "name one or two attributes of type S, N or B"}
	}
	return m, items, nil
}

// readItems reads the first items of a file, all if limit is 0; - is stdin.
func readItems(path string, limit int) ([]attribute.Item, error) {
	in := io.Reader(os.Stdin)
	fail := func(err error) ([]attribute.Item, error) {
		fix := "give DynamoDB's JSON, for example the output of: aws dynamodb get-item --table-name TABLE --key KEY"
		var known *itemfile.FormatError
		switch {
		case errors.As(err, &known):
			fix = known.Fix
		case errors.Is(err, itemfile.ErrTooLarge):
			fix = "show its first items: --sample 20"
		}
		return nil, &diag.Error{Code: diag.Usage, What: "cannot read the item in " + path, Cause: err.Error(), Fix: fix}
	}
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return fail(err)
		}
		defer file.Close()
		in = file
	}
	items, err := itemfile.Read(in, limit)
	if err == nil && len(items) == 0 {
		err = errors.New("it is empty")
	}
	if err != nil {
		return fail(err)
	}
	return items, nil
}

// rule is what of the configuration maps an item.
type rule struct {
	Name string `json:"name"`
	File string `json:"file"`
	Line int    `json:"line"`
}

// ruleOf is the rule by which an item was placed. Without rules every item is mapped in the default way, by the table's entry.
func ruleOf(cfg *config.Config, t config.Table, placed transform.Placement) rule {
	table := cfg.Where(t.Path() + ".from")
	at := cfg.Where(fmt.Sprintf("%s.rules[%d]", t.Path(), placed.Rule))
	switch {
	case at != (diag.Position{}):
		name := "rule " + placed.Name
		if placed.Name == "" {
			name = fmt.Sprintf("rule %d", placed.Rule+1)
		}
		return rule{name, at.File, at.Line}
	case cfg.Where(t.Path()+".rules[0]") != (diag.Position{}):
		return rule{"no rule", table.File, table.Line}
	case t.Preset != "":
		at = cfg.Where(t.Path() + ".preset")
		return rule{"preset " + t.Preset, at.File, at.Line}
	}
	return rule{"default mapping", table.File, table.Line}
}

func (r rule) String() string { return fmt.Sprintf("%s (%s:%d)", r.Name, r.File, r.Line) }
