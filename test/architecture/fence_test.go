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

// TestEveryRequestIsStamped: all requests to a target table go through one function, which puts the
// fence's operations first. Stamps that let a request pass without a fence exist only for in-memory
// targets. With settle, an application's own writes carry no stamp. dualwrite makes such writes
// too, and a settle replaces them.
func TestEveryRequestIsStamped(t *testing.T) {
	stamped := false
	err := filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
		if err != nil || entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
			strings.HasPrefix(name, "test/") || strings.HasPrefix(name, "bench/") || strings.HasPrefix(name, "sink/sinktest/") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			f, ok := call.Fun.(*ast.SelectorExpr)
			switch {
			case !ok:
			case f.Sel.Name == "Apply" && len(call.Args) == 2: // sink.Table's method; the client's method has more arguments
				if stamped = true; name != "sink/fence.go" && name != "dualwrite/target.go" {
					t.Errorf("%s sends a request to a table by itself", name)
				}
			case f.Sel.Name == "Unfenced" && name != "internal/mappingtest/run.go":
				t.Errorf("%s writes without a proof", name)
			}
			return true
		})
		return nil
	})
	if err != nil || !stamped {
		t.Error("no request is sent at all", err)
	}
}
