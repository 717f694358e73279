package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// seamed lists the packages whose waiting, timing, randomness and concurrency go through
// internal/task. So the simulation runs the product's own loops.
var seamed = []string{"cdc", "checkpoint", "transform", "sink", "backfill", "verify", "relay", "internal/fence", "internal/canary", "internal/readiness", "internal/drain", "internal/cutover", "internal/hook", "internal/notify", "internal/engine", "internal/stream", "internal/follow", "internal/job", "internal/load", "internal/verify", "internal/apply", "internal/pipeline", "internal/status", "internal/parked", "internal/desk", "internal/fallback", "internal/reverse", "internal/tablepolicy", "internal/freeze"}

// timed lists packages of commands whose time goes through internal/task, so that their tests run
// in virtual time. They may draw random identifiers without it.
var timed = []string{"internal/comparison", "internal/switchover", "internal/plan", "internal/evidence", "internal/repair"}

// forbidden lists the calls that would bypass internal/task.
var forbidden = map[string][]string{
	"time":         {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"},
	"context":      {"WithTimeout", "WithTimeoutCause", "WithDeadline", "WithDeadlineCause", "AfterFunc"},
	"math/rand":    {"*"},
	"math/rand/v2": {"*"},
	"crypto/rand":  {"*"},
}

func TestNothingEscapesTheRuntimeSeam(t *testing.T) {
	for _, pkg := range seamed {
		walk(t, pkg, func(path string, set *token.FileSet, file *ast.File) {
			for _, finding := range escapes(file) {
				t.Errorf("%s: %s: use internal/task", set.Position(finding.pos), finding.what)
			}
		})
	}
	for _, pkg := range timed {
		walk(t, pkg, func(path string, set *token.FileSet, file *ast.File) {
			for _, finding := range escapes(file) {
				if !strings.HasPrefix(finding.what, "crypto/rand") {
					t.Errorf("%s: %s: use internal/task", set.Position(finding.pos), finding.what)
				}
			}
		})
	}
}

// clocked lists the internal packages that may read the machine's clock: the seam, the watch of
// that clock, the terminal, and the demo, which runs in real time. The remaining ones are not
// converted yet.
var clocked = []string{"internal/task", "internal/clock", "internal/terminal", "internal/demo", "internal/comparison", "internal/plan"}

// operators lists the packages of commands that tests run in virtual time: they wait through
// internal/task.
var operators = []string{"internal/loads", "internal/lever"}

// TestTimeIsAskedInFewPlaces: code that computes an age uses the clock of its context or of the
// ledger.
func TestTimeIsAskedInFewPlaces(t *testing.T) {
	report := func(pkg string, names ...string) {
		walk(t, pkg, func(path string, set *token.FileSet, file *ast.File) {
			if contains(clocked, filepath.ToSlash(filepath.Dir(path))) {
				return
			}
			for _, f := range escapes(file) {
				if contains(names, f.what) {
					t.Errorf("%s: %s: ask internal/task, or the ledger", set.Position(f.pos), f.what)
				}
			}
		})
	}
	report("internal", "time.Now", "time.Since", "time.Until")
	for _, pkg := range operators {
		report(pkg, "time.After", "time.AfterFunc", "time.Tick", "time.NewTicker", "time.NewTimer", "time.Sleep",
			"context.WithTimeout", "context.WithTimeoutCause", "context.WithDeadline", "context.WithDeadlineCause")
	}
}

func TestSeamTestSeesEscapes(t *testing.T) {
	const source = `package p
import ("time"; clock "time"; "context"; "math/rand/v2")
func f(ctx context.Context, c chan int) {
	go f(ctx, c)
	select {}
	c <- 1
	<-c
	for range c {}
	close(c)
	_ = time.Now()
	clock.Sleep(1)
	context.WithTimeout(ctx, 1)
	_ = rand.Int()
}
var c = make(chan int)`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, f := range escapes(file) {
		kinds = append(kinds, f.what)
	}
	got := strings.Join(kinds, ", ")
	for _, want := range []string{"go statement", "select", "send", "receive", "channel type", "time.Now", "time.Sleep", "context.WithTimeout", "math/rand/v2.Int"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not seen in: %s", want, got)
		}
	}
}

type finding struct {
	pos  token.Pos
	what string
}

func escapes(file *ast.File) []finding {
	var found []finding
	add := func(n ast.Node, what string) { found = append(found, finding{n.Pos(), what}) }
	names := map[string]string{}
	for _, spec := range file.Imports {
		path := strings.Trim(spec.Path.Value, `"`)
		name := filepath.Base(path)
		if name == "v2" {
			name = filepath.Base(filepath.Dir(path))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = path
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			add(n, "go statement")
		case *ast.SelectStmt:
			add(n, "select")
		case *ast.SendStmt:
			add(n, "send")
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				add(n, "receive")
			}
		case *ast.ChanType:
			add(n, "channel type")
		case *ast.SelectorExpr:
			id, ok := n.X.(*ast.Ident)
			if !ok {
				break
			}
			path := names[id.Name]
			for _, name := range forbidden[path] {
				if name == n.Sel.Name || name == "*" {
					add(n, path+"."+n.Sel.Name)
				}
			}
		}
		return true
	})
	return found
}

// TestVendorClientsStayAtTheEdge keeps each client in the files of edges.
func TestVendorClientsStayAtTheEdge(t *testing.T) {
	for _, pkg := range seamed {
		walk(t, pkg, func(path string, set *token.FileSet, file *ast.File) {
			for _, spec := range file.Imports {
				imported := strings.Trim(spec.Path.Value, `"`)
				for prefix, home := range edges {
					if (imported == prefix || strings.HasPrefix(imported, prefix+"/")) && !contains(home, path) {
						t.Errorf("%s imports %s, which belongs in %v", path, imported, home)
					}
				}
				if strings.HasPrefix(imported, "cloud.google.com/go/bigtable") && !contains(bigtableEdge, path) {
					t.Errorf("%s imports the Bigtable client", path)
				}
			}
		})
	}
}

// bigtableEdge lists the files with Bigtable's clients: two for data, three for conditional writes,
// bulk writes and change streams on the wire, three for administration.
var bigtableEdge = []string{"sink/bigtable.go", "sink/wire.go", "sink/wirebulk.go", "sink/changestream.go", "sink/changestreamadmin.go", "checkpoint/bigtable.go", "sink/admin.go", "sink/lacks.go", "sink/view.go", "sink/profile.go"}

// walk parses the files of a package tree, except tests.
func walk(t *testing.T, pkg string, visit func(path string, set *token.FileSet, file *ast.File)) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(filepath.Join(root, pkg), func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if path == filepath.Join(root, pkg) {
				return fs.SkipDir // verify comes with a later release
			}
			return err
		}
		if d.IsDir() && strings.HasSuffix(d.Name(), "test") && d.Name() != "test" {
			return fs.SkipDir // conformance suites and references, which only tests use
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		visit(filepath.ToSlash(rel), set, file)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
