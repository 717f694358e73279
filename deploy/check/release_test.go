package check

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// released has the fields of goreleaser's configuration that are checked here. goreleaser's own
// check takes minutes to build (make release-check).
type released struct {
	Version  int            `json:"version"`
	Project  string         `json:"project_name"`
	Before   map[string]any `json:"before"`
	Snapshot map[string]any `json:"snapshot"`
	Builds   []struct {
		ID        string   `json:"id"`
		Main      string   `json:"main"`
		Binary    string   `json:"binary"`
		Env       []string `json:"env"`
		Systems   []string `json:"goos"`
		Processor []string `json:"goarch"`
		Flags     []string `json:"flags"`
		Ldflags   []string `json:"ldflags"`
		Time      string   `json:"mod_timestamp"`
	} `json:"builds"`
	Archives []struct {
		ID        string           `json:"id"`
		IDs       []string         `json:"ids"`
		Name      string           `json:"name_template"`
		Wrap      bool             `json:"wrap_in_directory"`
		Overrides []map[string]any `json:"format_overrides"`
		BuildInfo map[string]any   `json:"builds_info"`
		Files     []packed         `json:"files"`
	} `json:"archives"`
	Packages []struct {
		ID          string            `json:"id"`
		Name        string            `json:"package_name"`
		Formats     []string          `json:"formats"`
		Vendor      string            `json:"vendor"`
		Maintainer  string            `json:"maintainer"`
		Homepage    string            `json:"homepage"`
		Description string            `json:"description"`
		License     string            `json:"license"`
		Section     string            `json:"section"`
		Directory   string            `json:"bindir"`
		Time        string            `json:"mtime"`
		Umask       any               `json:"umask"`
		Recommends  []string          `json:"recommends"`
		Contents    []packed          `json:"contents"`
		Scripts     map[string]string `json:"scripts"`
	} `json:"nfpms"`
	SBOMs    []map[string]string `json:"sboms"`
	Checksum map[string]string   `json:"checksum"`
	Signs    []signed            `json:"signs"`
	Signed   []signed            `json:"docker_signs"`
	Casks    []struct {
		Name        string            `json:"name"`
		IDs         []string          `json:"ids"`
		Binaries    []string          `json:"binaries"`
		Description string            `json:"description"`
		Homepage    string            `json:"homepage"`
		Manual      []string          `json:"manpages"`
		Completions map[string]string `json:"completions"`
		Custom      string            `json:"custom_block"`
		Hooks       map[string]any    `json:"hooks"`
		Directory   string            `json:"directory"`
		Skip        string            `json:"skip_upload"`
		Repository  struct {
			Owner  string `json:"owner"`
			Name   string `json:"name"`
			Branch string `json:"branch"`
			Pull   struct {
				Enabled bool              `json:"enabled"`
				Base    map[string]string `json:"base"`
			} `json:"pull_request"`
		} `json:"repository"`
		Message string `json:"commit_msg_template"`
	} `json:"homebrew_casks"`
	Images []struct {
		ID         string            `json:"id"`
		Dockerfile string            `json:"dockerfile"`
		Images     []string          `json:"images"`
		Tags       []string          `json:"tags"`
		Platforms  []string          `json:"platforms"`
		Labels     map[string]string `json:"labels"`
		SBOM       bool              `json:"sbom"`
	} `json:"dockers_v2"`
	Changelog map[string]any `json:"changelog"`
	Release   map[string]any `json:"release"`
}

// signed is what goreleaser signs, and how.
type signed struct {
	ID        string   `json:"id"`
	Command   string   `json:"cmd"`
	Artifacts string   `json:"artifacts"`
	Signature string   `json:"signature"`
	Arguments []string `json:"args"`
}

// packed is a file of an archive or of a package.
type packed struct {
	Source string         `json:"src"`
	Target string         `json:"dst"`
	Type   string         `json:"type"`
	Only   string         `json:"packager"`
	Strip  bool           `json:"strip_parent"`
	Info   map[string]any `json:"info"`
}

const root = "../.."

// built by make manual, before anything else.
const manual = "bin/manual/"

func goreleaser(t *testing.T) released {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, ".goreleaser.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var r released
	if err := yaml.UnmarshalStrict(text, &r); err != nil {
		t.Fatal(err)
	}
	if r.Version != 2 || len(r.Builds) != 1 || len(r.Archives) != 1 || len(r.Packages) != 1 || len(r.Images) != 1 {
		t.Fatalf("%+v", r)
	}
	return r
}

// TestReleaseBuilds: the program is built like the image's, for six platforms, and knows its
// version.
func TestReleaseBuilds(t *testing.T) {
	b := goreleaser(t).Builds[0]
	if b.Main != "./cmd/replicator" || !slices.Equal(b.Env, []string{"CGO_ENABLED=0"}) || !slices.Equal(b.Flags, []string{"-trimpath"}) ||
		!slices.Equal(b.Systems, []string{"linux", "darwin", "windows"}) || !slices.Equal(b.Processor, []string{"amd64", "arm64"}) {
		t.Errorf("%+v", b)
	}
	linked := strings.Join(b.Ldflags, " ")
	for _, name := range []string{"version", "revision", "date"} {
		if !strings.Contains(linked, "-X main."+name+"=") {
			t.Errorf("the linker is not given the %s", name)
		}
		c := exec.Command("grep", "-qE", `^var .*\b`+name+`\b.* string$`, "version.go")
		c.Dir = filepath.Join(root, "cmd/replicator")
		if err := c.Run(); err != nil {
			t.Errorf("the program has no variable %s: %v", name, err)
		}
	}
}

// TestReleaseHolds: archives and packages have the right content, and their sources exist or are
// generated before.
func TestReleaseHolds(t *testing.T) {
	r := goreleaser(t)
	if hooks, _ := json.Marshal(r.Before["hooks"]); string(hooks) != `["make manual"]` {
		t.Errorf("before: %s", hooks)
	}
	p := r.Packages[0]
	if !slices.Equal(p.Formats, []string{"deb", "rpm"}) || p.Maintainer == "" || p.License != "Apache-2.0" || p.Directory != "/usr/bin" {
		t.Errorf("%+v", p)
	}
	for _, file := range slices.Concat(r.Archives[0].Files, p.Contents) {
		if file.Source == "" || strings.HasPrefix(file.Source, manual) {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, file.Source)); err != nil {
			t.Error(err)
		}
	}
	sources := func(files []packed) (out []string) {
		for _, f := range files {
			out = append(out, f.Source)
		}
		return out
	}
	for _, want := range []string{"LICENSE", "README.md", "CHANGELOG.md", manual + "man1/*", manual + "completions/*"} {
		if !slices.Contains(sources(r.Archives[0].Files), want) {
			t.Errorf("the archives do not hold %s", want)
		}
	}
	for _, format := range p.Formats {
		to := map[string]string{}
		for _, f := range p.Contents {
			if f.Only == "" || f.Only == format {
				to[f.Target] = f.Source
			}
		}
		license, zsh := "/usr/share/doc/replicator/copyright", "/usr/share/zsh/vendor-completions/_replicator"
		if format == "rpm" {
			license, zsh = "/usr/share/licenses/replicator/LICENSE", "/usr/share/zsh/site-functions/_replicator"
		}
		for target, source := range map[string]string{
			"/usr/lib/systemd/system/replicator.service": "deploy/systemd/replicator.service", "/etc/replicator": "",
			"/usr/share/doc/replicator/replicator.env.example":     "deploy/systemd/replicator.env.example",
			"/usr/share/man/man1":                                  manual + "man1/*",
			"/usr/share/bash-completion/completions/replicator":    manual + "completions/replicator.bash",
			"/usr/share/fish/vendor_completions.d/replicator.fish": manual + "completions/replicator.fish",
			zsh: manual + "completions/_replicator", license: "LICENSE",
		} {
			if got, there := to[target]; !there || got != source {
				t.Errorf("%s: %s is %q, want %q", format, target, got, source)
			}
		}
	}
	if len(r.SBOMs) != 2 || r.SBOMs[0]["artifacts"] != "archive" || r.SBOMs[1]["artifacts"] != "package" || r.Checksum["name_template"] != "checksums.txt" {
		t.Errorf("bills of materials: %v, checksums: %v", r.SBOMs, r.Checksum)
	}
}

// TestReleaseIsSigned: checksums and image are signed by the workflow's identity, and the workflow
// attests where the files of both lists come from.
func TestReleaseIsSigned(t *testing.T) {
	r := goreleaser(t)
	for _, c := range []struct {
		signs           []signed
		artifacts, call string
	}{
		{r.Signs, "checksum", "sign-blob --yes --bundle=${signature} ${artifact}"},
		{r.Signed, "images", "sign --yes ${artifact}@${digest}"},
	} {
		if len(c.signs) != 1 || c.signs[0].Command != "cosign" || c.signs[0].Artifacts != c.artifacts || strings.Join(c.signs[0].Arguments, " ") != c.call {
			t.Errorf("%s: %+v", c.artifacts, c.signs)
		}
	}
	workflow, err := os.ReadFile(filepath.Join(root, ".github/workflows/release.yml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"id-token: write", "attestations: write", "sigstore/cosign-installer@", "anchore/sbom-action/download-syft@",
		"subject-checksums: dist/checksums.txt", "subject-checksums: dist/digests.txt"} {
		if !strings.Contains(string(workflow), want) {
			t.Errorf("the workflow has no %s", want)
		}
	}
	if page, err := os.ReadFile(filepath.Join(root, "docs/how-to/verify-a-release.md")); err != nil || !strings.Contains(string(page), "checksums.txt.sigstore.json") ||
		!strings.Contains(r.Signs[0].Signature, ".sigstore.json") {
		t.Errorf("%v: the page does not name the signature %v", err, r.Signs[0].Signature)
	}
}

// TestReleaseCask: Homebrew installs the program, its manual and its completions from the archives.
// The cask comes as a pull request, because its archives are public only when the draft is.
func TestReleaseCask(t *testing.T) {
	r := goreleaser(t)
	if len(r.Casks) != 1 {
		t.Fatalf("%d casks", len(r.Casks))
	}
	c := r.Casks[0]
	if c.Name != "replicator" || !slices.Equal(c.IDs, []string{r.Archives[0].ID}) || !slices.Equal(c.Binaries, []string{r.Builds[0].Binary}) || c.Skip != "auto" || c.Directory != "Casks" {
		t.Errorf("%+v", c)
	}
	if p := c.Repository.Pull; !p.Enabled || p.Base["branch"] != "main" || !strings.Contains(c.Repository.Branch, "{{ .Version }}") || r.Release["draft"] != true {
		t.Errorf("pull request %+v, branch %s, release %v", p, c.Repository.Branch, r.Release)
	}
	packed := map[string]bool{}
	for _, f := range r.Archives[0].Files {
		packed[f.Target] = true
	}
	for _, path := range []string{c.Manual[0], c.Completions["bash"], c.Completions["zsh"], c.Completions["fish"]} {
		folder, _, _ := strings.Cut(path, "/")
		if rename := `rename "` + r.Project + `_*/` + folder + `", "` + folder + `"`; !packed[folder] || r.Archives[0].Wrap && !strings.Contains(c.Custom, rename) {
			t.Errorf("the archives do not hold %s, or the cask has no %s", path, rename)
		}
	}
	workflow, err := os.ReadFile(filepath.Join(root, ".github/workflows/release.yml"))
	if err != nil || !strings.Contains(string(workflow), "pull-requests: write") {
		t.Errorf("the workflow may not open a pull request (%v)", err)
	}
}

// TestScriptsOfPackages: sh accepts the scripts. They do nothing without systemd, or before an
// update.
func TestScriptsOfPackages(t *testing.T) {
	scripts := goreleaser(t).Packages[0].Scripts
	if len(scripts) != 3 {
		t.Errorf("%v", scripts)
	}
	// This systemctl prints its arguments.
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "systemctl"), []byte("#!/bin/sh\necho \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		script, argument string
		want             []string // if systemd runs
	}{
		{"postinstall", "configure", []string{"daemon-reload", "try-restart replicator.service"}},
		{"postinstall", "1", []string{"daemon-reload", "try-restart replicator.service"}},
		{"preremove", "upgrade", nil},
		{"preremove", "1", nil},
		{"preremove", "remove", []string{"--no-reload disable --now replicator.service"}},
		{"preremove", "0", []string{"--no-reload disable --now replicator.service"}},
		{"postremove", "remove", []string{"daemon-reload"}},
	} {
		text, err := os.ReadFile(filepath.Join(root, scripts[c.script]))
		if err != nil {
			t.Fatal(err)
		}
		for _, runs := range []bool{true, false} {
			system := filepath.Join(dir, "nowhere")
			if runs {
				system = dir
			}
			sh := exec.Command("sh", "-c", strings.ReplaceAll(string(text), "/run/systemd/system", system), c.script, c.argument)
			sh.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
			out, err := sh.CombinedOutput()
			want := strings.Join(c.want, "\n")
			if !runs {
				want = ""
			}
			if err != nil || strings.TrimSpace(string(out)) != want {
				t.Errorf("%s %s, systemd runs: %v: %q, %v, want %q", c.script, c.argument, runs, out, err, want)
			}
		}
	}
}

// TestReleaseImage: the release image equals the Dockerfile's except for the origin of the binary.
// Its labels describe it.
func TestReleaseImage(t *testing.T) {
	image := goreleaser(t).Images[0]
	if !slices.Equal(image.Platforms, []string{"linux/amd64", "linux/arm64"}) || !image.SBOM {
		t.Errorf("%+v", image)
	}
	for label, value := range map[string]string{"version": "{{ .Version }}", "revision": "{{ .FullCommit }}", "created": "{{ .CommitDate }}"} {
		if got := image.Labels["org.opencontainers.image."+label]; got != value {
			t.Errorf("label %s is %q, want %q", label, got, value)
		}
	}
	if image.Dockerfile != "deploy/container/release.Dockerfile" {
		t.Fatal(image.Dockerfile)
	}
	last := func(name string) (out []instruction) {
		for _, line := range dockerfile(t, name) {
			if line.name == "FROM" {
				out = nil
			}
			if line.name != "ARG" {
				out = append(out, line)
			}
		}
		return out
	}
	got, want := last("release.Dockerfile"), last("Dockerfile")
	// goreleaser sets the labels that depend on the build.
	want = slices.DeleteFunc(want, func(i instruction) bool { return i.name == "LABEL" && strings.Contains(i.arguments, "=$") })
	for label, value := range image.Labels {
		line := instruction{name: "LABEL", arguments: label + "=" + value}
		quoted := instruction{name: "LABEL", arguments: label + `="` + value + `"`}
		if !strings.Contains(value, "{{") && !slices.Contains(got, line) && !slices.Contains(got, quoted) {
			t.Errorf("release.Dockerfile has no label %s", label)
		}
	}
	for i, line := range got {
		if line.name == "COPY" && line.arguments == "$TARGETPLATFORM/replicator /replicator" {
			got[i].arguments = "--from=build /replicator /replicator"
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
}

// newestRelease returns the first version that CHANGELOG.md names, such as 0.1.0.
func newestRelease(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+)$`).FindSubmatch(text)
	if found == nil {
		t.Fatal("CHANGELOG.md names no release")
	}
	return string(found[1])
}

// TestManifestsDeployTheNewestRelease: chart and overlays name the image of the release that
// CHANGELOG.md names first. So no manifest names an image that was never built.
func TestManifestsDeployTheNewestRelease(t *testing.T) {
	release, named := newestRelease(t), 0
	pattern := regexp.MustCompile(`(?m)^\s*(?:version|appVersion|tag|newTag): (\d+\.\d+\.\d+)\b`)
	for _, glob := range []string{"deploy/helm/replicator/*.yaml", "deploy/kubernetes/overlays/*/kustomization.yaml"} {
		files, err := filepath.Glob(filepath.Join(root, glob))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range pattern.FindAllStringSubmatch(string(text), -1) {
				if named++; found[1] != release {
					t.Errorf("%s: %s, the newest release is %s", file, strings.TrimSpace(found[0]), release)
				}
			}
		}
	}
	if named < 7 {
		t.Errorf("only %d versions are named", named)
	}
}

// TestReleaseWorkflow: a tag releases with the goreleaser that is pinned and tested here.
func TestReleaseWorkflow(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".github/workflows/release.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var workflow map[string]any
	if err := yaml.UnmarshalStrict(text, &workflow); err != nil {
		t.Fatal(err)
	}
	pinned, err := os.ReadFile("../release/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`github\.com/goreleaser/goreleaser/v2 (v\S+)`).FindStringSubmatch(string(pinned))
	if version == nil || !strings.Contains(string(text), "version: "+version[1]+"\n") {
		t.Errorf("the workflow does not use goreleaser %v", version)
	}
}

// TestEveryModuleIsKept: dependabot checks each module of the repository.
func TestEveryModuleIsKept(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".github/dependabot.yml"))
	if err != nil {
		t.Fatal(err)
	}
	var bot struct {
		Version int `json:"version"`
		Updates []struct {
			Ecosystem   string         `json:"package-ecosystem"`
			Directory   string         `json:"directory"`
			Directories []string       `json:"directories"`
			Schedule    map[string]any `json:"schedule"`
			Groups      map[string]any `json:"groups"`
		} `json:"updates"`
	}
	if err := yaml.UnmarshalStrict(text, &bot); err != nil {
		t.Fatal(err)
	}
	var modules, kept []string
	err = fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (d.Name() == ".git" || path == "bin" || path == "dist") {
			return fs.SkipDir
		}
		if d != nil && d.Name() == "go.mod" {
			modules = append(modules, filepath.Clean("/"+filepath.Dir(path)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, update := range bot.Updates {
		if update.Ecosystem == "gomod" {
			kept = append(kept, update.Directories...)
		}
	}
	slices.Sort(modules)
	slices.Sort(kept)
	if !slices.Equal(modules, kept) {
		t.Errorf("modules %v, kept %v", modules, kept)
	}
}
