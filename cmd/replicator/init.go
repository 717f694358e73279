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
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/starter"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
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
		return diag.BadUsage("--force goes with --write", "without --write the config goes to stdout")
	}
	if _, err := os.Lstat(file); f.write && !f.force && !errors.Is(err, fs.ErrNotExist) {
		return fileExists(file)
	}
	if err := config.CheckEnvironment(p.Env, config.Anything).Err(); err != nil {
		return err
	}
	src, err := preflight.ConnectSource(ctx, &config.Config{})
	if err != nil {
		return err
	}
	names, err := match(src, ctx, f.from)
	if err != nil {
		return err
	}
	var tables []starter.Table
	for _, name := range names {
		t, err := starterTable(src, ctx, name, f.minimal)
		if err != nil {
			return err
		}
		tables = append(tables, t)
	}
	project, _ := p.Env("GOOGLE_CLOUD_PROJECT")
	proposal := starter.Propose(src.Region, starter.Target{Project: project}, tables, f.minimal)
	if f.write {
		if err := writeStarter(file, proposal.Config, f.force); err != nil {
			return err
		}
	}
	return p.showProposal(proposal, f.write, file)
}

func fileExists(file string) error {
	return diag.BadUsage(file+" exists already", "name another file with -c, or replace it with --force")
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
func match(s *preflight.Source, ctx context.Context, patterns []string) ([]string, error) {
	exact := len(patterns) > 0
	for _, one := range patterns {
		if strings.ContainsAny(one, `?[]\{}/`) || one == "" {
			return nil, diag.BadUsage(fmt.Sprintf("--from %q is neither a table's name nor a pattern", one), "* stands for any characters: --from 'Video*'")
		}
		exact = exact && !strings.Contains(one, "*")
	}
	if exact {
		return once(patterns), nil
	}
	all, err := s.Tables.List(ctx)
	if err != nil {
		return nil, preflight.ExplainSource("cannot list the tables of region "+s.Region, "", err)
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
		what := "no table in " + s.Region
		if len(patterns) > 0 {
			what += " matches --from '" + strings.Join(patterns, ",") + "'"
		}
		return nil, &diag.Error{Code: diag.SourceNotFound, What: what, Cause: "the region has " + terminal.Plural(len(all), "table"), Fix: "check --from and the region"}
	}
	return names, nil
}

// starterTable reads what a proposal is made of.
func starterTable(s *preflight.Source, ctx context.Context, name string, minimal bool) (starter.Table, error) {
	d, err := s.Tables.Describe(ctx, name)
	if err != nil {
		return starter.Table{}, preflight.ExplainSource("cannot read table "+name, name, err)
	}
	t := starter.Table{Name: name, PrimaryKey: d.PrimaryKey, Stream: d.StreamEnabled, Count: d.Items}
	if minimal {
		return t, nil
	}
	if t.TimeToLive, err = s.Expiry.Attribute(ctx, name); err != nil {
		err = preflight.ExplainSource("cannot read the time to live of table "+name, name, err)
		if t.TimeToLiveUnknown = diag.Has(err, diag.SourceDenied); !t.TimeToLiveUnknown {
			return t, err
		}
	}
	var items []attribute.Item
	if items, _, err = s.Tables.Sample(ctx, name, initSample); err != nil {
		return t, preflight.ExplainSource("cannot read items of table "+name, name, err)
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
	case p.AsJSON():
		return p.WriteJSON(proposed{"replicator.init/v1", proposal.Config, proposal.Tables})
	case written:
		_, err := fmt.Fprintf(p.Stdout, "%s: %s; read it, then `replicator lint -c %s`\n", file, terminal.Plural(len(proposal.Tables), "table"), file)
		return err
	}
	_, err := fmt.Fprint(p.Stdout, proposal.Config)
	return err
}
