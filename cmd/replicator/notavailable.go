package main

import (
	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// notAvailable are the commands that a migration is to have and this version does not, with what it does instead.
var notAvailable = map[string]string{
	"failover": "another cluster behind the app profile stops all writes",
}

// newNotAvailable makes hidden commands that say so, whatever flags they get: a typo is something else.
func newNotAvailable() []*cobra.Command {
	var commands []*cobra.Command
	for name, instead := range notAvailable {
		refuse := func(*cobra.Command, []string) error {
			return &diag.Error{Code: diag.NotAvailable, What: "replicator " + name + " is known, but not available in this version", Cause: instead,
				Fix: "see `replicator --help` for what there is"}
		}
		commands = append(commands, &cobra.Command{Use: name, Short: "Not available in this version", Hidden: true, DisableFlagParsing: true, Args: refuse, RunE: refuse})
	}
	return commands
}
