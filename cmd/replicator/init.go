package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/starter"
)

// initFlags are what init is asked to do.
type initFlags struct {
	from                  []string
	minimal, write, force bool
}

func newInit(p *program) *cobra.Command {
	var f initFlags
	c := &cobra.Command{
		Use:     "init [flags]",
		Short:   "Write a first config from existing tables",
		GroupID: groupPrepare,
		Long: `Write a starter config for tables of DynamoDB: with rules for tables that hold several types of items, the attribute by which items
expire, and comments on keys that would fill one tablet and on tables that look like parts of one. Read it and change it.

About 200 items of each table are read. The config contains no item data except beginnings of keys that look like names of types.
Nothing is written to either end; Bigtable is not contacted. It needs dynamodb:DescribeTable and Scan; ListTables, unless
every table is named; and DescribeTimeToLive, without which that attribute is left out.`,
		Example: `  replicator init --from 'Video*' > replicator.yaml
  replicator init --write
  replicator init --from Orders --minimal`,
		Args: none,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := p.within(c.Context())
			defer cancel()
			return p.init(ctx, f)
		},
	}
	flags := c.Flags()
	flags.SortFlags = false
	flags.StringSliceVar(&f.from, "from", nil, "source `TABLES`, each a name or with * for any characters; all of the region when not given")
	flags.BoolVar(&f.minimal, "minimal", false, "only what must be given: no rules, no remarks")
	flags.BoolVar(&f.write, "write", false, "write the file of -c, default ./replicator.yaml, rather than stdout")
	flags.BoolVar(&f.force, "force", false, "with --write, replace a file that exists")
	return c
}

// initSample is how many items of each table are read.
const initSample = 200

func (p *program) init(ctx context.Context, f initFlags) error {
	file := p.configPath
	if file == "" {
		file = "replicator.yaml"
	}
	if f.force && !f.write {
		return usage("--force goes with --write", "without --write the config goes to stdout")
	}
	if _, err := os.Lstat(file); f.write && !f.force && !errors.Is(err, fs.ErrNotExist) {
		return fileExists(file)
	}
	if err := config.CheckEnvironment(p.env, config.Anything).Err(); err != nil {
		return err
	}
	src, err := connectSource(ctx, &config.Config{})
	if err != nil {
		return err
	}
	names, err := src.match(ctx, f.from)
	if err != nil {
		return err
	}
	var tables []starter.Table
	for _, name := range names {
		t, err := src.starterTable(ctx, name, f.minimal)
		if err != nil {
			return err
		}
		tables = append(tables, t)
	}
	project, _ := p.env("GOOGLE_CLOUD_PROJECT")
	proposal := starter.Propose(src.region, starter.Target{Project: project}, tables, f.minimal)
	if f.write {
		if err := writeStarter(file, proposal.Config, f.force); err != nil {
			return err
		}
	}
	return p.showProposal(proposal, f.write, file)
}

func fileExists(file string) error {
	return usage(file+" exists already", "name another file with -c, or replace it with --force")
}

// once leaves out the names that stand before, as a pattern does.
func once(names []string) []string {
	var out []string
	for _, name := range names {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// match is the tables of the region that the patterns name.
func (s *source) match(ctx context.Context, patterns []string) ([]string, error) {
	exact := len(patterns) > 0
	for _, one := range patterns {
		if strings.ContainsAny(one, `?[]\{}/`) || one == "" {
			return nil, usage(fmt.Sprintf("--from %q is neither a table's name nor a pattern", one), "* stands for any characters: --from 'Video*'")
		}
		exact = exact && !strings.Contains(one, "*")
	}
	if exact {
		return once(patterns), nil
	}
	all, err := s.tables.List(ctx)
	if err != nil {
		return nil, explainSource("cannot list the tables of region "+s.region, "", err)
	}
	var names []string
	for _, name := range all {
		chosen := len(patterns) == 0
		for _, one := range patterns {
			matches, _ := path.Match(one, name) // it has no other sign than *
			chosen = chosen || matches
		}
		if chosen {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		what := "no table in " + s.region
		if len(patterns) > 0 {
			what += " matches --from '" + strings.Join(patterns, ",") + "'"
		}
		return nil, &diag.Error{Code: diag.SourceNotFound, What: what, Cause: "the region has " + plural(len(all), "table"), Fix: "check --from and the region"}
	}
	return names, nil
}

// starterTable reads what a proposal is made of.
func (s *source) starterTable(ctx context.Context, name string, minimal bool) (starter.Table, error) {
	d, err := s.tables.Describe(ctx, name)
	if err != nil {
		return starter.Table{}, explainSource("cannot read table "+name, name, err)
	}
	t := starter.Table{Name: name, PrimaryKey: d.PrimaryKey, Stream: d.StreamEnabled, Count: d.Items}
	if minimal {
		return t, nil
	}
	if t.TimeToLive, err = s.expiry.Attribute(ctx, name); err != nil {
		err = explainSource("cannot read the time to live of table "+name, name, err)
		if t.TimeToLiveUnknown = diag.Has(err, diag.SourceDenied); !t.TimeToLiveUnknown {
			return t, err
		}
	}
	var items []attribute.Item
	if items, _, err = s.tables.Sample(ctx, name, initSample); err != nil {
		return t, explainSource("cannot read items of table "+name, name, err)
	}
	t.Items = items
	return t, nil
}

func writeStarter(file, text string, force bool) error {
	mode := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		mode = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	out, err := os.OpenFile(file, mode, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fileExists(file)
	}
	if err == nil {
		_, err = out.WriteString(text)
		err = errors.Join(err, out.Close())
	}
	if err != nil {
		return &diag.Error{Code: diag.Usage, What: "cannot write " + file, Err: err, Fix: "name another file with -c"}
	}
	return nil
}

// proposed is init's output for programs.
type proposed struct {
	Schema string `json:"schema"` // replicator.init/v1
	Config string `json:"config"` // the config file
	// Tables are what was recognised of each: how many items were sampled, their types, why its keys are hot, the attribute of its
	// time to live, and the pattern of a series.
	Tables []starter.Recognised `json:"tables"`
}

// showProposal tells the config, or what it was made of if it was written to a file.
func (p *program) showProposal(proposal starter.Proposal, written bool, file string) error {
	switch {
	case p.asJSON():
		return p.writeJSON(proposed{"replicator.init/v1", proposal.Config, proposal.Tables})
	case written:
		_, err := fmt.Fprintf(p.stdout, "%s: %s; read it, then `replicator lint -c %s`\n", file, plural(len(proposal.Tables), "table"), file)
		return err
	}
	_, err := fmt.Fprint(p.stdout, proposal.Config)
	return err
}
