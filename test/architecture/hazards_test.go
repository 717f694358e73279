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
	"strings"
	"testing"
)

// hazards is the number of hazards. The register has an entry for each.
const hazards = 115

// notBuilt lists the planned capabilities that the register may name instead of tests, or beside
// them.
var notBuilt = []string{
	"bulk mode", "creation after every check", "cutover", "dual writes", "loads from exports", "relay", "reload and sweep",
	"verify and repair",
}

// entry is a hazard of HAZARDS.md.
type entry struct{ tests, later []string }

var (
	registerHead = regexp.MustCompile(`^\*\*(H\d{2,3})\*\* \S`)
	registerTest = regexp.MustCompile("^- `(\\w+\\.Test\\w+)`$")
	hazardNumber = regexp.MustCompile(`H\d{2,3}`)
)

// TestHazardsAreCovered keeps HAZARDS.md and the tests consistent. Every hazard has an entry. Every
// entry names existing tests or planned capabilities. Every test that names a hazard is in its
// entry.
func TestHazardsAreCovered(t *testing.T) {
	register := readRegister(t)
	tests := hazardTests(t)
	for n := 1; n <= hazards; n++ {
		name := fmt.Sprintf("H%02d", n)
		e, ok := register[name]
		if !ok {
			t.Errorf("%s has no entry in HAZARDS.md", name)
			continue
		}
		for _, test := range e.tests {
			if !slices.Contains(tests[name], test) {
				t.Errorf("%s: there is no test %s, or its name does not say %s", name, test, name)
			}
		}
		for _, part := range e.later {
			if !slices.Contains(notBuilt, part) {
				t.Errorf("%s: %q is no capability that is not built yet", name, part)
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
	return parseRegister(t, string(text))
}

// parseRegister reads the section "Register": a heading for each hazard, then a list of tests and
// of capabilities that are not built yet.
func parseRegister(t *testing.T, text string) map[string]entry {
	t.Helper()
	_, text, _ = strings.Cut(text, "\n## Register\n")
	register, name := map[string]entry{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if head := registerHead.FindStringSubmatch(line); head != nil {
			name = head[1]
			if _, twice := register[name]; twice {
				t.Errorf("%s has two entries", name)
			}
			register[name] = entry{}
			continue
		}
		if name == "" || line == "" {
			continue // text before the first hazard
		}
		e := register[name]
		if part, ok := strings.CutPrefix(line, "- not built yet: "); ok {
			e.later = append(e.later, part)
		} else if test := registerTest.FindStringSubmatch(line); test != nil {
			e.tests = append(e.tests, test[1])
		} else {
			t.Errorf("%s: neither a test nor a capability: %s", name, line)
		}
		register[name] = e
	}
	for name, e := range register {
		if len(e.tests)+len(e.later) == 0 {
			t.Errorf("%s lists nothing", name)
		}
	}
	return register
}

func TestRegisterTakesThreeDigits(t *testing.T) {
	got := parseRegister(t, "\n## Register\n\nWords.\n\n**H09** a fault\n\n- `p.TestH09_A`\n\n**H100** another\n\n- `p.TestH100_B`\n- not built yet: relay\n")
	if len(got) != 2 || !slices.Equal(got["H100"].tests, []string{"p.TestH100_B"}) || !slices.Equal(got["H100"].later, []string{"relay"}) {
		t.Errorf("got %v", got)
	}
	if names := hazardNumber.FindAllString("TestH01_H100_H7", -1); !slices.Equal(names, []string{"H01", "H100"}) {
		t.Errorf("a name says %v", names)
	}
}

// hazardTests lists the tests of the tree, as package.Test, by the hazards in their names.
func hazardTests(t *testing.T) map[string][]string {
	t.Helper()
	tests := map[string][]string{}
	testFiles(t, func(pkg string, f *ast.FuncDecl) {
		for _, name := range hazardNumber.FindAllString(f.Name.Name, -1) {
			tests[name] = append(tests[name], pkg+"."+f.Name.Name)
		}
	})
	return tests
}

// testFiles calls visit for each test of the tree, with the name of its folder.
func testFiles(t *testing.T, visit func(pkg string, f *ast.FuncDecl)) {
	t.Helper()
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
		for _, declared := range file.Decls {
			if f, ok := declared.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
				visit(filepath.Base(filepath.Dir(path)), f)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
