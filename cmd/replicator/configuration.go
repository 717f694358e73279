package main

import (
	"bytes"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"
)

func newConfig(p *program) *cobra.Command {
	c := group(&cobra.Command{
		Use:     "config",
		Short:   "print",
		GroupID: groupOther,
		Long:    "Show the configuration as this program understands it.",
	})
	c.AddCommand(&cobra.Command{
		Use:   "print [flags]",
		Short: "Print the effective config: defaults, environment and flags applied",
		Long: `Print the effective config: what the file says, with defaults, environment and flags applied.

What is not a default is followed by the place it came from. The output is itself a config file.`,
		Args: none,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := p.load()
			if err != nil {
				return err
			}
			if !p.asJSON() {
				return cfg.Print(p.stdout)
			}
			var text bytes.Buffer
			if err := cfg.Print(&text); err != nil {
				return err
			}
			// The printed text is the one description of the effective values, durations included.
			var document map[string]any
			if err := yaml.Unmarshal(text.Bytes(), &document); err != nil {
				return err
			}
			return p.writeJSON(document)
		},
	})
	return c
}
