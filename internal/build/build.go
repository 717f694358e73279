// Package build reports the version of the program.
package build

import (
	"cmp"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
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

// identify returns the identity of the program. Values from the linker take precedence over the
// values that the toolchain recorded. The toolchain records the module's version, and the commit of
// a build in a working copy. The argument `info` may be nil.
func identify(version, revision, date string, info *debug.BuildInfo) Info {
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

// embedded returns the identity of this module in a program that imports it. The version is that of
// the module, and not of the program. The argument `info` may be nil.
func embedded(info *debug.BuildInfo) Info {
	// The Beam jobs are a module of this project, which is released together with this one.
	if info == nil || info.Main.Path == module || strings.HasPrefix(info.Main.Path, module+"/") {
		return identify("", "", "", info)
	}
	for _, d := range info.Deps {
		if d.Path != module {
			continue
		}
		if d.Replace != nil {
			d = d.Replace
		}
		return identify("", "", "", &debug.BuildInfo{Main: *d})
	}
	return identify("", "", "", nil)
}

// this is the identity that This returns; nil before the first call. Every request to AWS needs it,
// and the toolchain's record takes long to parse.
var this atomic.Pointer[Info]

// Link sets the identity of the program from the values that the linker set in its main package. It
// is called before main.
func Link(version, revision, date string) {
	info, _ := debug.ReadBuildInfo()
	this.Store(new(identify(version, revision, date, info)))
}

// This returns the identity of the running program. In a program that imports this module, it is the
// identity of this module.
func This() Info {
	if b := this.Load(); b != nil {
		return *b
	}
	info, _ := debug.ReadBuildInfo()
	b := embedded(info)
	this.Store(&b)
	return b
}

// Product is the name of the program in the User-Agent of its requests.
const Product = "replicator"

// UserAgent returns the User-Agent header of requests to other services, such as replicator/v1.2.3.
func UserAgent() string { return Product + "/" + token(This().Version) }

// token replaces the bytes of a version that a User-Agent must not contain. Source:
// https://www.rfc-editor.org/rfc/rfc9110#name-tokens
func token(version string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z' || strings.ContainsRune("!#$%&'*+-.^_`|~", r) {
			return r
		}
		return '-'
	}, version)
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
