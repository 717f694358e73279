package check

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"sigs.k8s.io/yaml"
)

// largestBinary is the promised maximum size of the binary, in bytes. Eight MiB of it are the
// resolver with which Google's client reaches Bigtable without a proxy inside Google Cloud.
const largestBinary = 64 << 20

// binary builds the program once, as the images do, except for -trimpath, which would recompile
// everything. The build cache keeps the result; the file disappears with the test's directory.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "replicator")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "replicator")
	c := exec.Command("go", "build", "-ldflags=-s -w -X main.version=v9.8.7 -X main.revision=0123abc -X main.date=2026-11-25T10:00:00Z", "-o", path, "./cmd/replicator")
	c.Dir, c.Env = "../..", append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := c.CombinedOutput(); err != nil {
		return string(out), err
	}
	return path, nil
})

func TestMain(m *testing.M) {
	status := m.Run()
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(status)
}

// lint checks a configuration with the program itself.
func lint(t *testing.T, path string) {
	t.Helper()
	program, err := binary()
	if err != nil {
		t.Fatal(program, err)
	}
	c := exec.Command(program, "lint", path)
	c.Env = nil // the tests' environment must have no influence
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", path, err, out)
	}
}

// The binary needs neither a loader nor a library, and is small enough.
func TestBinaryIsStatic(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(path, err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("the binary is linked dynamically: %v", p.Type)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Size() > largestBinary {
		t.Errorf("the binary has %d bytes, at most %d are allowed (%v)", info.Size(), largestBinary, err)
	}
	t.Logf("%.1f MiB", float64(info.Size())/(1<<20))
}

// The program reports the version that the linker received.
func TestBinaryKnowsItsVersion(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(path, err)
	}
	out, err := exec.Command(path, "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "replicator v9.8.7 (revision 0123abc of 2026-11-25T10:00:00Z, ") {
		t.Errorf("%s, %v", out, err)
	}
}

// instruction is a line of a Dockerfile.
type instruction struct{ name, arguments string }

func dockerfile(t *testing.T, name string) (out []instruction) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../container", name))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, arguments, _ := strings.Cut(line, " ")
		if !slices.Contains([]string{"FROM", "WORKDIR", "ARG", "COPY", "RUN", "ENV", "EXPOSE", "ENTRYPOINT", "CMD", "USER", "LABEL"}, name) {
			t.Errorf("instruction %s: no test looks at it", name)
		}
		out = append(out, instruction{name, strings.TrimSpace(arguments)})
	}
	return out
}

// distroless is a base without a shell, whose user is not root.
const distroless = "gcr.io/distroless/static-debian12:nonroot"

func TestDockerfile(t *testing.T) {
	all := dockerfile(t, "Dockerfile")
	last := -1
	for i, line := range all {
		if line.name == "FROM" {
			last = i
		}
	}
	if last < 0 || all[last].arguments != distroless {
		t.Fatalf("the image is not built on %s", distroless)
	}
	built := false
	for _, line := range all[:last] {
		if line.name == "RUN" && strings.Contains(line.arguments, "go build") {
			built = strings.Contains(line.arguments, "CGO_ENABLED=0") && strings.Contains(line.arguments, "-trimpath") &&
				strings.Contains(line.arguments, "-X main.version=${VERSION} -X main.revision=${REVISION} -X main.date=${DATE}")
		}
	}
	if !built {
		t.Error("the binary is not built statically, or does not know its version")
	}
	got := map[string]string{}
	for _, line := range all[last+1:] {
		got[line.name] += line.arguments
	}
	for name, want := range map[string]string{"COPY": "--from=build /replicator /replicator", "ENTRYPOINT": `["/replicator"]`, "CMD": `["run"]`,
		"ENV": "REPLICATOR_HTTP_LISTEN=:8080", "EXPOSE": "8080", "RUN": "", "WORKDIR": ""} {
		if got[name] != want {
			t.Errorf("%s %s, want %s", name, got[name], want)
		}
	}
	for label, argument := range map[string]string{"version": "VERSION", "revision": "REVISION", "created": "DATE"} {
		if !slices.Contains(all[last+1:], instruction{"LABEL", "org.opencontainers.image." + label + "=$" + argument}) || !slices.Contains(all[last+1:], instruction{"ARG", argument}) {
			t.Errorf("the image has no label %s with the build's %s", label, argument)
		}
	}
	// The Go version of the image can build the module.
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(all[0].arguments, "golang:"), " ")
	if !strings.Contains(string(mod), "\ngo "+version+".") {
		t.Errorf("the image is built with Go %s, which go.mod does not name", version)
	}
}

func TestKo(t *testing.T) {
	text, err := os.ReadFile("../container/.ko.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var ko struct {
		DefaultBaseImage string `json:"defaultBaseImage"`
		Builds           []struct {
			ID      string   `json:"id"`
			Main    string   `json:"main"`
			Env     []string `json:"env"`
			Flags   []string `json:"flags"`
			Ldflags []string `json:"ldflags"`
		} `json:"builds"`
	}
	if err := yaml.UnmarshalStrict(text, &ko); err != nil {
		t.Fatal(err)
	}
	if ko.DefaultBaseImage != distroless || len(ko.Builds) != 1 || ko.Builds[0].Main != "./cmd/replicator" ||
		!slices.Equal(ko.Builds[0].Env, []string{"CGO_ENABLED=0"}) || !slices.Equal(ko.Builds[0].Flags, []string{"-trimpath"}) {
		t.Errorf("%+v", ko)
	}
}

// TestHooksImage: the image has what hooks need, a shell and flock, and runs the program like the
// image without them.
func TestHooksImage(t *testing.T) {
	last := func(name string) map[string]string {
		out := map[string]string{}
		for _, line := range dockerfile(t, name) {
			if line.name == "FROM" {
				clear(out)
			}
			out[line.name] = line.arguments
		}
		return out
	}
	got, want := last("hooks.Dockerfile"), last("Dockerfile")
	for _, name := range []string{"ENV", "EXPOSE", "ENTRYPOINT", "CMD"} {
		if got[name] != want[name] || got[name] == "" {
			t.Errorf("%s %s, want %s", name, got[name], want[name])
		}
	}
	if !strings.HasPrefix(got["FROM"], "alpine:3.") || got["USER"] != "65532:65532" { // BusyBox, which has flock
		t.Errorf("FROM %s, USER %s", got["FROM"], got["USER"])
	}
}

// TestNoImageIsTheLatest: a restart must not start a newer version.
func TestNoImageIsTheLatest(t *testing.T) {
	checked := 0
	for _, dir := range []string{"deploy", "docs", "examples"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || !slices.Contains([]string{".md", ".yaml", ".yml", ".tf", ".Dockerfile", ""}, filepath.Ext(path)) {
				return err
			}
			text, err := os.ReadFile(path)
			checked++
			for _, bad := range []string{":latest", "newTag: latest", "tag: latest"} {
				if strings.Contains(string(text), bad) {
					t.Errorf("%s names an image %s", path, bad)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if checked < 100 {
		t.Errorf("only %d files", checked)
	}
}
