package check

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ignored returns the paths that an image build does not see. They may contain no patterns, so that
// no test needs their rules.
func ignored(t *testing.T) (out []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if strings.ContainsAny(line, "*?[!") {
			t.Errorf(".dockerignore: %s is a pattern", line)
		}
		out = append(out, strings.Trim(line, "/"))
	}
	return out
}

// cleanClone returns the build context of the last commit's image: the files in git, without the
// ignored ones.
func cleanClone(t *testing.T) string {
	t.Helper()
	c := exec.Command("git", "archive", "--format=tar", "HEAD")
	c.Dir, c.Stderr = root, os.Stderr
	archive, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	dir, without := t.TempDir(), ignored(t)
	// In a linked working copy it points nowhere, and Go fails on it.
	if !slices.Contains(without, ".git") {
		t.Error(".dockerignore does not name .git")
	}
	for files := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		below := func(path string) bool { return h.Name == path || strings.HasPrefix(h.Name, path+"/") }
		if h.Typeflag != tar.TypeReg || slices.ContainsFunc(without, below) {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(files)
		if err == nil {
			err = os.WriteFile(path, text, fs.FileMode(h.Mode))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// copyInto does what COPY does with sources in the context.
func copyInto(t *testing.T, context, to, arguments string) {
	t.Helper()
	words := strings.Fields(arguments)
	if len(words) < 2 {
		t.Fatalf("COPY %s", arguments)
	}
	for _, source := range words[:len(words)-1] {
		from := filepath.Join(context, source)
		info, err := os.Stat(from)
		switch {
		case err != nil:
			t.Errorf("COPY %s: a clean clone does not hold %s, or .dockerignore leaves it out: %v", arguments, source, err)
		case info.IsDir():
			if err := os.RemoveAll(to); err != nil {
				t.Fatal(err)
			}
			if err := os.CopyFS(to, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
		default:
			text, err := os.ReadFile(from)
			if err == nil {
				err = os.WriteFile(filepath.Join(to, info.Name()), text, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The image can be built from a clean clone. The copied files exist, the commands succeed on them,
// and the version is the build argument's, because there is no repository. The compiler does not
// run: go lists its commands (-n).
func TestImageBuildsOfACleanClone(t *testing.T) {
	context, stage := cleanClone(t), t.TempDir()
	environment := append(os.Environ(), "GOFLAGS=", "GOWORK=off", "VERSION=v9.8.7", "REVISION=0123abc", "DATE=2026-11-25T10:00:00Z")
	linked := ""
	for _, line := range dockerfile(t, "Dockerfile")[1:] {
		switch line.name {
		case "FROM":
			const want = "-X main.version=v9.8.7 -X main.revision=0123abc -X main.date=2026-11-25T10:00:00Z"
			if !strings.Contains(linked, want) || !strings.Contains(linked, "/replicator\n") {
				t.Errorf("the linker is not given %s, or does not write /replicator", want)
			}
			return // the last stage copies only from this one, as TestDockerfile checks
		case "COPY":
			copyInto(t, context, stage, line.arguments)
		case "RUN":
			c := exec.Command("sh", "-euc", strings.ReplaceAll(line.arguments, "go build ", "go build -n "))
			c.Dir, c.Env = stage, environment
			out, err := c.CombinedOutput()
			if err != nil {
				t.Fatalf("RUN %s: %v\n%s", line.arguments, err, out[max(0, len(out)-2000):])
			}
			linked += string(out)
		}
	}
	t.Error("no stage follows the one that builds")
}

// Every documented build command passes the version to the image.
func TestDocumentedBuildsAreStamped(t *testing.T) {
	command := regexp.MustCompile(`(?m)docker build (?:[^\n]*\\\n)*[^\n]*`)
	found := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			if name := d.Name(); err == nil && (name == "node_modules" || name == ".git") {
				return fs.SkipDir
			}
			return err
		}
		if filepath.Ext(path) != ".md" && d.Name() != "Dockerfile" {
			return nil
		}
		text, err := os.ReadFile(path)
		for _, build := range command.FindAllString(string(text), -1) {
			found++
			for _, want := range []string{"-f deploy/container/Dockerfile ", `--build-arg VERSION="$(git describe --tags --always `, `--build-arg REVISION="$(git rev-parse HEAD)"`, "--build-arg DATE="} {
				if !strings.Contains(build, want) {
					t.Errorf("%s: no %s in %s", path, want, build)
				}
			}
		}
		return err
	})
	if err != nil || found < 3 {
		t.Errorf("%d commands, %v", found, err)
	}
}
