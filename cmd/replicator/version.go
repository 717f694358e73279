package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by release builds with -ldflags "-X main.version=1.2.3".
var version = ""

// build says which program this is.
type build struct {
	Schema   string `json:"schema"` // replicator.version/v1
	Version  string `json:"version"`
	Revision string `json:"revision"` // commit, with "+changes" if the tree was modified; "unknown" outside a repository
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// thisBuild reads what the linker and the toolchain have recorded.
func thisBuild() build {
	b := build{Schema: "replicator.version/v1", Version: version, Revision: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if b.Version == "" {
		b.Version = "devel"
		// A module version is recorded by `go install …@version`; a build in a working copy has "(devel)" or a made-up one.
		if ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
			b.Version = info.Main.Version
		}
	}
	if !ok {
		return b
	}
	changed := false
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			changed = s.Value == "true"
		}
	}
	if changed {
		b.Revision += "+changes"
	}
	return b
}

func newVersion(p *program) *cobra.Command {
	return &cobra.Command{
		Use:     "version [flags]",
		Short:   "Print the version of this program",
		GroupID: groupOther,
		Args:    none,
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild()
			if p.asJSON() {
				return p.writeJSON(b)
			}
			_, err := fmt.Fprintf(p.stdout, "replicator %s (revision %s, %s, %s)\n", b.Version, b.Revision, b.Go, b.Platform)
			return err
		},
	}
}
