// Package build reports the version of the program.
package build

import (
	"cmp"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
)

// Info identifies the program.
type Info struct {
	Schema   string `json:"schema"`   // replicator.version/v1
	Version  string `json:"version"`  // "unknown build" if unknown
	Revision string `json:"revision"` // commit, with "+changes" if the tree was modified; "unknown" if it was not recorded
	Date     string `json:"date"`     // time of the commit, RFC 3339; "unknown" if it was not recorded
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Unknown is the value of a revision or a date that was not recorded.
const Unknown = "unknown"

// unknownBuild is the version of a program that was built without any record of its sources.
const unknownBuild = "unknown build"

// pseudoVersion matches a version that Go derives from a commit. It ends with the beginning of the
// commit's hash.
// Source: https://go.dev/ref/mod#pseudo-versions
var pseudoVersion = regexp.MustCompile(`[-.]\d{14}-([0-9a-f]{12})(?:\+\S*)?$`)

// Identify returns the identity of the program. Values from the linker take precedence over the
// values that the toolchain recorded. The toolchain records the module's version, and the commit of
// a build in a working copy. The argument `info` may be nil.
func Identify(version, revision, date string, info *debug.BuildInfo) Info {
	b := Info{
		Schema: "replicator.version/v1", Version: version, Revision: revision, Date: date,
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
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
		// The form in which git describe names a commit without tags.
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
		b.Revision = Unknown
	}
	if b.Date == "" {
		b.Date = cmp.Or(setting(info, "vcs.time"), Unknown)
	}
	return b
}

// module is the path of this module.
const module = "github.com/dynamodb-bigtable/replicator"

// Embedded returns the identity of this module in a program that imports it. The version is that of
// the module, and not of the program. The argument `info` may be nil.
func Embedded(info *debug.BuildInfo) Info {
	if info == nil || info.Main.Path == module {
		return Identify("", "", "", info)
	}
	for _, d := range info.Deps {
		if d.Path != module {
			continue
		}
		if d.Replace != nil {
			d = d.Replace
		}
		return Identify("", "", "", &debug.BuildInfo{Main: *d})
	}
	return Identify("", "", "", nil)
}

// recorded returns the commit that the toolchain recorded; "" if none.
func recorded(info *debug.BuildInfo) string {
	commit := setting(info, "vcs.revision")
	switch found := pseudoVersion.FindStringSubmatch(info.Main.Version); {
	case commit != "" && setting(info, "vcs.modified") == "true":
		return commit + "+changes"
	case commit == "" && found != nil:
		return found[1]
	}
	return commit
}

// setting returns the value that the toolchain recorded under a name; "" if none.
func setting(info *debug.BuildInfo, name string) string {
	for _, s := range info.Settings {
		if s.Key == name {
			return s.Value
		}
	}
	return ""
}
