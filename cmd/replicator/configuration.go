package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/config"
)

func newConfig(p *program) *cobra.Command {
	c := group(&cobra.Command{
		Use:     "config",
		Short:   "print | schema | functions",
		GroupID: groupOther,
		Long:    "Show the configuration as this program understands it.",
		Example: `  replicator config print
  replicator config functions`,
	})
	c.AddCommand(&cobra.Command{
		Use:   "print [flags]",
		Short: "Print the effective config: defaults, environment and flags applied",
		Long: `Print the effective config: the file with defaults, environment and flags applied.

Values that are not defaults are followed by their place. The output is itself a config file.`,
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
		Long: `Print the JSON Schema of config files. Editors complete keys, explain them and underline errors with
it.

Editors with the YAML language server find it by a comment in the first line of the config file:

  # yaml-language-server: $schema=./replicator.schema.json

This program refuses everything that the schema refuses. Only lint and plan check keys together.`,
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
		Long: `List the functions that follow | in templates of row keys and columns, each with its effect on order
and an example.

The order is that of the rows, if the function is the last of its placeholder: kept, reversed (the
largest first) or lost. An item with a value that a function does not accept is parked with the
reason.`,
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
