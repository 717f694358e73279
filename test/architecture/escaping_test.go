package architecture

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOnePlaceEscapesForTerminals: only one function escapes control characters for terminals. A
// second one would escape a different set.
func TestOnePlaceEscapesForTerminals(t *testing.T) {
	owner := filepath.Join("..", "..", "internal", "diag", "printable.go")
	for _, root := range []string{"cmd", "internal"} {
		err := filepath.WalkDir(filepath.Join("..", "..", root), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || path == owner {
				return err
			}
			text, err := os.ReadFile(path)
			for _, call := range []string{"IsPrint(", "IsControl(", "IsGraphic("} {
				if bytes.Contains(text, []byte(call)) {
					t.Errorf("%s decides itself what can be printed: use diag.Printable, diag.PrintableLines or diag.Quoted", path)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
