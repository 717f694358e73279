package main

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/dynamodb-bigtable/replicator/internal/build"
)

// version and revision are set by builds with -ldflags "-X main.version=1.2.3 -X main.revision=0123abc": make and the images do.
var version, revision string

// thisBuild reads what the linker and the toolchain have recorded.
func thisBuild() build.Info {
	info, _ := debug.ReadBuildInfo()
	return build.Identify(version, revision, info)
}

func newVersion(p *program) *cobra.Command {
	return &cobra.Command{
		Use:     "version [flags]",
		Short:   "Print the version of this program",
		GroupID: groupOther,
		Args:    none,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if p.AsJSON() {
				return p.WriteJSON(b)
			}
			_, err := fmt.Fprintf(p.Stdout, "replicator %s (revision %s, %s, %s)\n", b.Version, b.Revision, b.Go, b.Platform)
			return err
		},
	}
}
