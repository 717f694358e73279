package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mostLines is the maximum size of an internal package, in lines without tests. A larger package
// has two subjects.
const mostLines = 4000

// roomLimits lists packages with a lower limit.
var roomLimits = map[string]int{"internal/pipeline": 1200}

// products calls f for each Go file below a folder, except tests.
func products(t *testing.T, folder string, f func(name, text string)) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join("../..", folder), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		f(strings.TrimPrefix(filepath.ToSlash(path), "../../"), string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestRoomsStaySmall: no internal package has more lines than a person can keep in mind.
func TestRoomsStaySmall(t *testing.T) {
	lines := map[string]int{}
	products(t, "internal", func(name, text string) { lines[filepath.Dir(name)] += strings.Count(text, "\n") })
	for room, n := range lines {
		most := mostLines
		if less, ok := roomLimits[room]; ok {
			most = less
		}
		if n > most {
			t.Errorf("%s has %d lines of product, at most %d are its share: give a part of it a room of its own", room, n, most)
		}
	}
}

// TestStandingJudgesAlone: only checkpoint, which changes the record, and internal/standing read
// from it whether a table needs a load. All others call standing.
func TestStandingJudgesAlone(t *testing.T) {
	judges := map[string]bool{}
	for _, folder := range []string{"internal", "cmd", "sink", "cdc", "backfill", "verify", "relay", "dualwrite", "exports", "checkpoint"} {
		products(t, folder, func(name, text string) {
			file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "NeedsLoad" {
					// The error code, the state.
					if x, ok := s.X.(*ast.Ident); !ok || x.Name != "diag" && x.Name != "standing" {
						judges[filepath.Dir(name)] = true
					}
				}
				return true
			})
		})
	}
	if len(judges) != 2 || !judges["checkpoint"] || !judges["internal/standing"] {
		t.Errorf("NeedsLoad of a table's record is read in %v, and should be in checkpoint and internal/standing alone", judges)
	}
}

// TestSourcesHaveOneHome: only internal/source opens the source of a load, with the stores that
// preflight connects. It calls the file readers of backfill. All others call internal/source.
func TestSourcesHaveOneHome(t *testing.T) {
	home := []string{"internal/source", "internal/preflight", "backfill"}
	for _, folder := range []string{"internal", "cmd", "backfill", "checkpoint", "sink", "dualwrite", "relay"} {
		products(t, folder, func(name, text string) {
			if slices.Contains(home, filepath.Dir(name)) {
				return
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, text, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range file.Imports {
				if path := strings.Trim(i.Path.Value, `"`); path == module+"/exports" || path == module+"/exports/bucket" {
					t.Errorf("%s imports %s: ask internal/source", name, path)
				}
			}
			ast.Inspect(file, func(n ast.Node) bool {
				s, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				x, ok := s.X.(*ast.Ident)
				if ok && x.Name == "backfill" && slices.Contains([]string{"Segments", "Exported", "Chain", "Files", "FileOf", "NumberOfParts"}, s.Sel.Name) {
					t.Errorf("%s uses backfill.%s: which parts a load has, and how they are read, internal/source says", name, s.Sel.Name)
				}
				return true
			})
		})
	}
}

// TestTheCommandLineStaysThin: the command line calls the packages that do the work. It reads
// neither ledger nor target itself.
func TestTheCommandLineStaysThin(t *testing.T) {
	products(t, "cmd", func(name, text string) {
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			path := strings.TrimPrefix(strings.Trim(i.Path.Value, `"`), module+"/")
			if slices.Contains([]string{"checkpoint", "transform", "sink", "internal/engine"}, path) {
				t.Errorf("%s imports %s", name, path)
			}
		}
	})
}
