package architecture

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// hazards is how many there are: the register has a row for each.
const hazards = 88

// laterParts are the parts of the product that the register may name instead of tests, or for the rest of a hazard's cover.
var laterParts = []string{
	"alerts", "bulk mode", "cutover", "dual writes", "failover", "loads from exports", "mapping rules", "relay", "reload and sweep",
	"verify and repair",
}

// entry is a hazard's row of HAZARDS.md.
type entry struct{ tests, later []string }

var (
	registerRow  = regexp.MustCompile(`^\| H(\d\d) \| ([^|]+) \| ([^|]+) \|$`)
	hazardNumber = regexp.MustCompile(`H\d+`)
)

// TestHazardsAreCovered keeps HAZARDS.md and the tests in step: every hazard has a row, every row names tests that exist or what is to
// come, and every test that names a hazard is in its row.
func TestHazardsAreCovered(t *testing.T) {
	register := readRegister(t)
	tests := hazardTests(t)
	for n := 1; n <= hazards; n++ {
		name := fmt.Sprintf("H%02d", n)
		e, ok := register[name]
		if !ok {
			t.Errorf("%s has no row in HAZARDS.md", name)
			continue
		}
		for _, test := range e.tests {
			if !slices.Contains(tests[name], test) {
				t.Errorf("%s: there is no test %s, or its name does not say %s", name, test, name)
			}
		}
		for _, part := range e.later {
			if !slices.Contains(laterParts, part) {
				t.Errorf("%s: %q is no part of the product that is to come", name, part)
			}
		}
		for _, test := range tests[name] {
			if !slices.Contains(e.tests, test) {
				t.Errorf("%s: the test %s is not in HAZARDS.md", name, test)
			}
		}
	}
	for name := range tests {
		if _, ok := register[name]; !ok {
			t.Errorf("tests name %s, which is no hazard of HAZARDS.md", name)
		}
	}
}

func readRegister(t *testing.T) map[string]entry {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "HAZARDS.md"))
	if err != nil {
		t.Fatal(err)
	}
	register := map[string]entry{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| H") {
			continue
		}
		row := registerRow.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if row == nil {
			t.Errorf("not a row of the register: %s", line)
			continue
		}
		name := "H" + row[1]
		if _, twice := register[name]; twice {
			t.Errorf("%s has two rows", name)
		}
		var e entry
		for _, cell := range strings.Split(row[3], "<br>") {
			if part, ok := strings.CutPrefix(cell, "later: "); ok {
				e.later = append(e.later, part)
			} else {
				e.tests = append(e.tests, strings.Trim(cell, "`"))
			}
		}
		register[name] = e
	}
	return register
}

// hazardTests are the tests of the tree, as package.Test, by the hazards that their names say.
func hazardTests(t *testing.T) map[string][]string {
	t.Helper()
	tests := map[string][]string{}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != root) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := filepath.Base(filepath.Dir(path))
		for _, declared := range file.Decls {
			f, ok := declared.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Test") {
				continue
			}
			for _, name := range hazardNumber.FindAllString(f.Name.Name, -1) {
				if n, err := strconv.Atoi(name[1:]); err == nil && len(name) == 3 && n > 0 {
					tests[name] = append(tests[name], pkg+"."+f.Name.Name)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}
