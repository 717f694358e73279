package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/build"
)

// version, revision and date are set by the linker: -ldflags "-X main.version=v1.2.3 -X
// main.revision=0123abc -X main.date=2026-11-25T10:00:00Z". Make, the image builds and the releases
// set them.
var version, revision, date string

func init() { build.Link(version, revision, date) }

func newVersion(p *program) *cobra.Command {
	return &cobra.Command{
		Use:     "version [flags]",
		Short:   "Print the version of this program",
		GroupID: groupOther,
		Example: `  replicator version
  replicator version -o json`,
		Args: none,
		RunE: func(*cobra.Command, []string) error {
			b := build.This()
			if p.AsJSON() {
				return p.WriteJSON(b)
			}
			revision := b.Revision
			if b.Date != build.Unknown {
				revision += " of " + b.Date
			}
			_, err := fmt.Fprintf(p.Stdout, "replicator %s (revision %s, %s, %s)\n", b.Version, revision, b.Go, b.Platform)
			return err
		},
	}
}
