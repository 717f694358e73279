package architecture

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os/exec"
	"path/filepath"
	"regexp"
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

// entryPoint matches the functions with which a program begins to use a package.
var entryPoint = regexp.MustCompile(`^(?:New|Open|Connect|Parse|Read)(?:[A-Z]|$)`)

// TestEntryPointsHaveExamples: each function of a public package that returns a type of the package,
// and with which a program begins, has its own example, or is called in another example with checked
// output.
func TestEntryPointsHaveExamples(t *testing.T) {
	points := 0
	for _, name := range publicPackages(t) {
		paths, err := filepath.Glob(filepath.Join("..", "..", name, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		set, shown := token.NewFileSet(), map[string]bool{}
		var product []*ast.File
		for _, path := range paths {
			file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasSuffix(path, "_test.go") {
				product = append(product, file)
				continue
			}
			for _, e := range doc.Examples(file) {
				shown[e.Name] = true
				if e.Output != "" {
					calls(e.Code, shown)
				}
			}
		}
		documented, err := doc.NewFromFiles(set, product, module+"/"+name)
		if err != nil {
			t.Fatal(err)
		}
		for _, of := range documented.Types {
			for _, f := range of.Funcs {
				if !entryPoint.MatchString(f.Name) {
					continue
				}
				if points++; !isShown(f.Name, shown) {
					t.Errorf("%s.%s has no example: write Example%s", name, f.Name, f.Name)
				}
			}
		}
	}
	if points < 40 {
		t.Errorf("there are only %d entry points", points)
	}
}

// calls adds the names of the functions that a code calls from packages.
func calls(code ast.Node, names map[string]bool) {
	ast.Inspect(code, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if f, ok := call.Fun.(*ast.SelectorExpr); ok {
				names[f.Sel.Name] = true
			}
		}
		return true
	})
}

// isShown reports whether a function has an example, perhaps with a suffix such as ExampleNew_rules.
func isShown(name string, examples map[string]bool) bool {
	for example := range examples {
		if example == name || strings.HasPrefix(example, name+"_") {
			return true
		}
	}
	return false
}
