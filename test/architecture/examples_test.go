package architecture

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// notPublic lists the folders whose packages other programs do not import.
var notPublic = []string{"bench", "cmd", "examples", "internal", "test"}

// TestPublicPackagesHaveExamples: the documentation of every public package has a runnable example
// with checked output. Packages for users' tests (attribute/attributetest) need none, because those
// tests are the examples.
func TestPublicPackagesHaveExamples(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{.Dir}}{{range .TestGoFiles}} {{.}}{{end}}{{range .XTestGoFiles}} {{.}}{{end}}`, module+"/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	public := 0
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		name := strings.TrimPrefix(words[0], module+"/")
		first, _, _ := strings.Cut(name, "/")
		parent := filepath.Base(filepath.Dir(name))
		if slices.Contains(notPublic, first) || filepath.Base(name) == parent+"test" {
			continue
		}
		public++
		var files []*ast.File
		for _, file := range words[2:] {
			parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(words[1], file), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, parsed)
		}
		runs := func(e *doc.Example) bool { return e.Output != "" && e.Doc != "" }
		if !slices.ContainsFunc(doc.Examples(files...), runs) {
			t.Errorf("package %s has no Example with a text and an output", name)
		}
	}
	if public < 12 {
		t.Errorf("there are only %d public packages", public)
	}
}
