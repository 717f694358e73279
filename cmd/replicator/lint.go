package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/diag"
	"github.com/dynamodb-bigtable/replicator/internal/environment"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

func newLint(p *program) *cobra.Command {
	var allowed environment.Allowed
	c := &cobra.Command{
		Use:     "lint [FILE] [flags]",
		Short:   "Check a config file; offline",
		GroupID: groupPrepare,
		Long: `Check a config file and its environment, offline.

It shows all errors and warnings, each with its line, cause and fix. The exit status is 2 if there
are errors, else 0. It does not read the tables' key schemas, so only plan makes checks that need
them.`,
		Example: `  replicator lint
  replicator lint deploy/replicator.yaml -o json`,
		Args: atMost(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				p.configPath = args[0]
			}
			return p.lint(allowed)
		},
	}
	allowFlags(c, &allowed)
	return c
}

// lintReport is lint's output for programs.
type lintReport struct {
	Schema   string    `json:"schema"` // replicator.lint/v1
	File     string    `json:"file"`
	Errors   int       `json:"errors"`
	Warnings int       `json:"warnings"`
	Findings diag.List `json:"findings"`
	// DualWrites is the mode of dual writes of each table. DualWrites is null if no table has
	// dual_writes, or if the file cannot be loaded.
	DualWrites []config.DualWay `json:"dual_writes"`
	// NotChecked are checks that only plan can do, because they need DynamoDB or Bigtable.
	NotChecked []string `json:"not_checked"`
}

// notChecked lists the checks that need the key schemas of the tables or the clouds.
var notChecked = []string{"key collisions", "rules that move items between rows", "permissions, streams and tables"}

func (p *program) lint(allowed environment.Allowed) error {
	path, err := config.Find(p.configPath, p.Env)
	if err != nil {
		return err
	}
	found, err := config.Examine(path, p.Env, p.logFlags()...)
	if err != nil && !errors.As(err, &found) {
		return err
	}
	found = append(found, environment.Check(p.Env, allowed)...)
	report := lintReport{Schema: "replicator.lint/v1", File: path, Findings: found, NotChecked: notChecked}
	if c, err := config.Load(path, p.Env, p.logFlags()...); err == nil {
		report.DualWrites = c.DualWays()
	}
	for _, f := range found {
		if f.Warning {
			report.Warnings++
		} else {
			report.Errors++
		}
	}
	if p.AsJSON() {
		if report.Findings == nil {
			report.Findings = diag.List{}
		}
		if err := p.WriteJSON(report); err != nil {
			return err
		}
	} else {
		if err := p.findings(found); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(p.Stdout, "%s: %s, %s\n", diag.Printable(path), terminal.Plural(report.Errors, "error"), terminal.Plural(report.Warnings, "warning")); err != nil {
			return err
		}
		for _, w := range report.DualWrites {
			if _, err := fmt.Fprint(p.Stdout, w); err != nil {
				return err
			}
		}
		if report.Errors == 0 {
			if _, err := fmt.Fprintf(p.Stdout, "only `replicator plan` can check: %s\n", strings.Join(notChecked, "; ")); err != nil {
				return err
			}
		}
	}
	if err := found.Err(); err != nil {
		return &reported{err}
	}
	return nil
}
