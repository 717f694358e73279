package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/config"
)

func newConfig(p *program) *cobra.Command {
	c := group(&cobra.Command{
		Use:     "config",
		Short:   "Print the config, its JSON Schema or the template functions",
		GroupID: groupOther,
		Long:    "Show the config as replicator reads it.",
		Example: `  replicator config print
  replicator config functions`,
	})
	c.AddCommand(&cobra.Command{
		Use:   "print [flags]",
		Short: "Print the effective config: defaults, environment and flags applied",
		Long: `Print the effective config: the file with defaults, environment and flags applied.

Each value that is not a default shows its file and line, variable or flag. The output is a valid
config file.`,
		Example: `  replicator config print
  replicator config print -c replicator.yaml -o json`,
		Args: none,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := p.load()
			if err != nil {
				return err
			}
			if !p.AsJSON() {
				return cfg.Print(p.Stdout)
			}
			document, err := cfg.Document()
			if err != nil {
				return err
			}
			return p.WriteJSON(document)
		},
	})
	c.AddCommand(&cobra.Command{
		Use:   "schema [flags]",
		Short: "Print the JSON Schema of config files, for editors",
		Long: `Print the JSON Schema of config files. With it, editors complete and explain keys and underline
errors.

Editors with the YAML language server find the schema by this first line of a config file:

  # yaml-language-server: $schema=./replicator.schema.json

The schema checks each key alone. lint and plan also check combinations of keys.`,
		Example: "  replicator config schema > replicator.schema.json",
		Args:    none,
		RunE: func(*cobra.Command, []string) error {
			_, err := p.Stdout.Write(config.JSONSchema())
			return err
		},
	})
	c.AddCommand(&cobra.Command{
		Use:   "functions [flags]",
		Short: "List the functions of row-key and column templates",
		Long: `List the functions for row-key and column templates, such as {PK | lower}. Each function is shown
with an example and its effect on the order of rows.

The last function of a placeholder decides the order of rows: kept, reversed (largest first) or
lost. An item is parked if a function does not accept its value.`,
		Example: `  replicator config functions
  replicator config functions -o json`,
		Args: none,
		RunE: func(*cobra.Command, []string) error { return p.showFunctions() },
	})
	return c
}

func (p *program) showFunctions() error {
	list := config.TemplateFunctions()
	if p.AsJSON() {
		return p.WriteJSON(struct {
			Schema    string                    `json:"schema"`
			Functions []config.TemplateFunction `json:"functions"`
		}{"replicator.functions/v1", list})
	}
	for _, f := range list {
		if _, err := fmt.Fprintf(p.Stdout, "%-18s %-9s %s\n", f.Example, f.Order, f.Meaning); err != nil {
			return err
		}
	}
	return nil
}
