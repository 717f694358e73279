package build

import (
	"os"
	"regexp"
	"runtime/debug"
	"testing"
)

// Every way of building produces a program that reports its version, and a build without any record
// says so.
func TestIdentify(t *testing.T) {
	const commit = "5368257a0bd271f9c6fedf3ec26e8ee79c7931db"
	made := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	vcs, changed := debug.BuildSetting{Key: "vcs.revision", Value: commit}, debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for _, c := range []struct {
		name, version, revision string
		info                    *debug.BuildInfo
		wantVersion             string
		wantRevision            string
	}{
		{"make, of a tag", "v1.2.3", commit, made("(devel)"), "v1.2.3", commit},
		{"make, without a tag", "", commit + "+changes", made("(devel)"), "5368257a0bd2+changes", commit + "+changes"},
		{"go build and go install in a working copy", "", "", made("v0.0.0-20261124160541-5368257a0bd2", vcs), "v0.0.0-20261124160541-5368257a0bd2", commit},
		{"the same with changes", "", "", made("v0.0.0-20261124160541-5368257a0bd2+dirty", vcs, changed), "v0.0.0-20261124160541-5368257a0bd2+dirty", commit + "+changes"},
		{"the same with an older toolchain", "", "", made("(devel)", vcs), "5368257a0bd2", commit},
		{"go install of a version", "", "", made("v1.2.3"), "v1.2.3", "unknown"},
		{"go install of a commit", "", "", made("v1.2.4-0.20261124160541-5368257a0bd2"), "v1.2.4-0.20261124160541-5368257a0bd2", "5368257a0bd2"},
		{"go run, or without a repository", "", "", made("(devel)"), unknownBuild, "unknown"},
		{"nothing recorded", "", "", nil, unknownBuild, "unknown"},
	} {
		if b := identify(c.version, c.revision, "", c.info); b.Version != c.wantVersion || b.Revision != c.wantRevision {
			t.Errorf("%s: %q, revision %q", c.name, b.Version, b.Revision)
		}
	}
}

// A program that imports this module reports the module's version, and not its own.
func TestEmbedded(t *testing.T) {
	const ours = "github.com/dynamodb-bigtable/replicator"
	main := debug.Module{Path: "example.com/app", Version: "v9.9.9"}
	for _, c := range []struct {
		name, want string
		info       *debug.BuildInfo
	}{
		{"a release", "v1.2.3", &debug.BuildInfo{Main: main, Deps: []*debug.Module{{Path: "example.com/other", Version: "v5.0.0"}, {Path: ours, Version: "v1.2.3"}}}},
		{"a fork", "v1.2.4", &debug.BuildInfo{Main: main, Deps: []*debug.Module{{Path: ours, Version: "v1.2.3", Replace: &debug.Module{Path: "example.com/fork", Version: "v1.2.4"}}}}},
		{"a folder", unknownBuild, &debug.BuildInfo{Main: main, Deps: []*debug.Module{{Path: ours, Version: "v1.2.3", Replace: &debug.Module{Path: "../replicator"}}}}},
		{"a program of this module", "v1.2.3", &debug.BuildInfo{Main: debug.Module{Path: ours, Version: "v1.2.3"}}},
		{"the module of the Beam jobs", "v1.2.3", &debug.BuildInfo{Main: debug.Module{Path: ours + "/beam", Version: "v1.2.3"}, Deps: []*debug.Module{{Path: ours, Version: "v0.0.0", Replace: &debug.Module{Path: "../"}}}}},
		{"another module", unknownBuild, &debug.BuildInfo{Main: main}},
		{"nothing recorded", unknownBuild, nil},
	} {
		if b := embedded(c.info); b.Version != c.want {
			t.Errorf("%s: %q, want %q", c.name, b.Version, c.want)
		}
	}
}

// The date is the commit's: from the linker if given, otherwise from the toolchain.
func TestIdentifyDate(t *testing.T) {
	const recorded, given = "2026-11-25T10:00:00Z", "2026-11-24T09:00:00Z"
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.time", Value: recorded}}}
	for _, c := range []struct {
		date string
		info *debug.BuildInfo
		want string
	}{{given, info, given}, {"", info, recorded}, {"", nil, Unknown}} {
		if b := identify("", "", c.date, c.info); b.Date != c.want {
			t.Errorf("%q: %q, want %q", c.date, b.Date, c.want)
		}
	}
}

// The builds pass what Identify expects.
func TestBuildsAreStamped(t *testing.T) {
	for path, want := range map[string]string{
		"../../Makefile":                    `(?m)^STAMP = -X main\.version=\$\(VERSION\) -X main\.revision=\$\(REVISION\) -X main\.date=\$\(DATE\)$[\s\S]*\$\(GO\) build -ldflags "\$\(STAMP\)"`,
		"../../deploy/container/Dockerfile": `(?m)^ARG VERSION=""$\n^ARG REVISION=""$\n^ARG DATE=""$\n^RUN .*go build .*-X main\.version=\$\{VERSION\} -X main\.revision=\$\{REVISION\} -X main\.date=\$\{DATE\}`,
		"../../deploy/container/.ko.yaml":   `ldflags: .*-X main\.revision=\{\{\.Git\.FullCommit\}\}.*-X main\.date=\{\{\.Git\.CommitDate\}\}`,
		"../../.goreleaser.yaml":            `(?m)^ +- -s -w -X main\.version=v\{\{ \.Version \}\} -X main\.revision=\{\{ \.FullCommit \}\}.* -X main\.date=\{\{ \.CommitDate \}\}$`,
	} {
		text, err := os.ReadFile(path)
		if err != nil || !regexp.MustCompile(want).Match(text) {
			t.Errorf("%s: no %s, %v", path, want, err)
		}
	}
}

// All builds of make share compiled packages. Only releases trim paths, which recompiles
// everything, and nothing but the race detector needs C.
func TestMakeBuildsOneFlavour(t *testing.T) {
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	if regexp.MustCompile(`-trimpath|-gcflags`).Match(text) || !regexp.MustCompile(`(?m)^export CGO_ENABLED = 0$`).Match(text) {
		t.Error("the Makefile builds with flags of its own, or with C")
	}
	if !regexp.MustCompile(`(?m)^demo: build\b.*\n\tbin/replicator demo$`).Match(text) {
		t.Error("make demo does not run what make build builds")
	}
}

// `go install …@version` refuses a module that replaces or excludes another. It builds the command
// below the module's path, without a linker's values, so Identify uses the recorded version.
func TestGoInstall(t *testing.T) {
	text, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if refused := regexp.MustCompile(`(?m)^(?:replace|exclude)\b`).Find(text); refused != nil {
		t.Errorf("go.mod has a directive %s", refused)
	}
	if !regexp.MustCompile(`(?m)^module ` + regexp.QuoteMeta(module) + `$`).Match(text) {
		t.Errorf("the module is not %s", module)
	}
	readme, err := os.ReadFile("../../README.md")
	if want := "go install " + module + "/cmd/replicator@"; err != nil || !regexp.MustCompile(regexp.QuoteMeta(want)).Match(readme) {
		t.Errorf("README.md does not have %s (%v)", want, err)
	}
}

// The identity of a program that the linker stamped is the same everywhere. A User-Agent has one
// product with a version that is a token.
func TestThis(t *testing.T) {
	if b := This(); b != This() || b.Version == "" {
		t.Errorf("%+v, then %+v", b, This())
	}
	t.Cleanup(func() { this.Store(nil) })
	for version, want := range map[string]string{
		"v1.2.3": "replicator/v1.2.3", "5368257a0bd2+changes": "replicator/5368257a0bd2+changes", unknownBuild: "replicator/unknown-build", "v1 (a/b)\r\n": "replicator/v1--a-b---",
	} {
		Link(version, "0123abc", "2026-11-25T10:00:00Z")
		if b := This(); b.Version != version || b.Revision != "0123abc" || b.Date != "2026-11-25T10:00:00Z" || UserAgent() != want {
			t.Errorf("%+v, sent as %q, want %q", b, UserAgent(), want)
		}
	}
}
