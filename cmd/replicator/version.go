package main

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// version and revision are set by builds with -ldflags "-X main.version=1.2.3 -X main.revision=0123abc": make and the images do.
var version, revision string

// build says which program this is.
type build struct {
	Schema   string `json:"schema"`   // replicator.version/v1
	Version  string `json:"version"`  // "unknown build" if nothing was recorded
	Revision string `json:"revision"` // commit, with "+changes" if the tree was modified; "unknown" if it was not recorded
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// unknownBuild is the version of a program that was built without any record of its sources.
const unknownBuild = "unknown build"

// thisBuild reads what the linker and the toolchain have recorded.
func thisBuild() build {
	info, _ := debug.ReadBuildInfo()
	return identify(version, revision, info)
}

// pseudoVersion is a version that Go makes of a commit: its end is the beginning of the commit's hash.
// Source: https://go.dev/ref/mod#pseudo-versions
var pseudoVersion = regexp.MustCompile(`[-.]\d{14}-([0-9a-f]{12})(?:\+\S*)?$`)

// identify tells which program this is. What the linker was given goes before what the toolchain recorded: the module's version, and the commit of a build in
// a working copy. Info may be nil.
func identify(version, revision string, info *debug.BuildInfo) build {
	b := build{Schema: "replicator.version/v1", Version: version, Revision: revision, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		info = &debug.BuildInfo{}
	}
	if b.Version == "" && info.Main.Version != "(devel)" {
		b.Version = info.Main.Version
	}
	if b.Revision == "" {
		b.Revision = recorded(info)
	}
	if b.Version == "" {
		// As git describe names a commit without tags.
		commit, changes, _ := strings.Cut(b.Revision, "+")
		b.Version = commit[:min(len(commit), 12)]
		if changes != "" {
			b.Version += "+" + changes
		}
	}
	if b.Version == "" {
		b.Version = unknownBuild
	}
	if b.Revision == "" {
		b.Revision = "unknown"
	}
	return b
}

// recorded is the commit that the toolchain recorded; "" if it recorded none.
func recorded(info *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	switch found := pseudoVersion.FindStringSubmatch(info.Main.Version); {
	case commit != "" && settings["vcs.modified"] == "true":
		return commit + "+changes"
	case commit == "" && found != nil:
		return found[1]
	}
	return commit
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
