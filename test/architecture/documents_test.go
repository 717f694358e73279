package architecture

import (
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
	"unicode/utf8"
)

// document reads a file of the repository.
func document(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// decisions lists the pages of docs/decisions.
func decisions(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob("../../docs/decisions/*.md")
	if err != nil || len(found) < 5 {
		t.Fatalf("%d decisions, %v", len(found), err)
	}
	for i := range found {
		found[i] = filepath.ToSlash(strings.TrimPrefix(found[i], "../../"))
	}
	return found
}

// TestDocumentsStayShort: documents stay short enough to be read whole, in a terminal of 120
// columns.
func TestDocumentsStayShort(t *testing.T) {
	if n := len(document(t, "ARCHITECTURE.md")); n > 11<<10 {
		t.Errorf("ARCHITECTURE.md has %d bytes, 11 KB are enough", n)
	}
	changelog := document(t, "CHANGELOG.md")
	if n := strings.Count(changelog, "\n"); n > 80 {
		t.Errorf("CHANGELOG.md has %d lines, 80 are enough", n)
	}
	for _, heading := range []string{"\n## Unreleased\n", "\n## 0.1.0\n"} {
		if !strings.Contains(changelog, heading) {
			t.Errorf("CHANGELOG.md has no heading %q", strings.TrimSpace(heading))
		}
	}
	for _, entry := range strings.Split(changelog, "\n- ")[1:] {
		entry, _, _ = strings.Cut(entry, "\n\n")
		if strings.Count(strings.TrimRight(entry, "\n"), "\n") > 1 {
			t.Errorf("CHANGELOG.md: an entry has more than two lines: %s", entry)
		}
	}
	for _, path := range append(decisions(t), "README.md", "ARCHITECTURE.md", "HAZARDS.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs/explanation/glossary.md") {
		for line := range strings.Lines(document(t, path)) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 120 && !strings.HasPrefix(line, "| ") {
				t.Errorf("%s: %d columns: %s", path, n, line)
			}
		}
	}
}

var (
	placePattern   = regexp.MustCompile("`([a-z][\\w./-]*/[\\w.-]*\\.go)(?::(\\w+))?`")
	folderPattern  = regexp.MustCompile("`([a-z][\\w-]*(?:/[\\w-]+)*/)`")
	packagePattern = regexp.MustCompile(`(?m)^([a-z]\w*(?:/\w+)*/)(?:  |$)`)
)

// TestNamedPlacesExist: each place that a document names, `file.go:Function`, is declared in that
// file.
func TestNamedPlacesExist(t *testing.T) {
	places, folders := 0, 0
	exists := func(path, name string) bool {
		_, err := os.Stat(filepath.Join("..", "..", name))
		if err != nil {
			t.Errorf("%s: there is no %s", path, name)
		}
		return err == nil
	}
	for _, path := range append(decisions(t), "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/traps.md") {
		text := document(t, path)
		for _, place := range placePattern.FindAllStringSubmatch(text, -1) {
			places++
			if exists(path, place[1]) && place[2] != "" && !slices.Contains(declarations(t, place[1]), place[2]) {
				t.Errorf("%s: %s declares no %s", path, place[1], place[2])
			}
		}
		for _, folder := range append(folderPattern.FindAllStringSubmatch(text, -1), packagePattern.FindAllStringSubmatch(text, -1)...) {
			folders++
			exists(path, folder[1])
		}
	}
	if places < 30 || folders < 5 {
		t.Errorf("only %d places and %d folders are named", places, folders)
	}
}

// declarations lists the functions, methods and types that a file declares.
func declarations(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", path), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, declared := range file.Decls {
		switch d := declared.(type) {
		case *ast.FuncDecl:
			names = append(names, d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if s, ok := spec.(*ast.TypeSpec); ok {
					names = append(names, s.Name.Name)
				}
			}
		}
	}
	return names
}

// TestTrapsHaveTests: each trap names a test that would fail if someone made the mistake again.
func TestTrapsHaveTests(t *testing.T) {
	row := regexp.MustCompile("^\\| [^|]+ \\| [^|]+ \\| [^|]+ \\| `(\\w+)\\.(Test\\w+)` \\|$")
	rows := 0
	tests := map[string]bool{}
	testFiles(t, func(pkg string, f *ast.FuncDecl) { tests[pkg+"."+f.Name.Name] = true })
	_, table, _ := strings.Cut(document(t, "docs/traps.md"), "|---|---|---|---|\n")
	for line := range strings.Lines(table) {
		rows++
		if m := row.FindStringSubmatch(strings.TrimSuffix(line, "\n")); m == nil {
			t.Errorf("docs/traps.md: not a trap: %s", line)
		} else if !tests[m[1]+"."+m[2]] {
			t.Errorf("docs/traps.md: there is no test %s.%s", m[1], m[2])
		}
	}
	if rows < 20 {
		t.Errorf("only %d traps", rows)
	}
}

// TestGlossaryHasEachWordOnce: a word has one meaning, so the glossary has it once.
func TestGlossaryHasEachWordOnce(t *testing.T) {
	seen, before := map[string]bool{}, ""
	for _, m := range regexp.MustCompile(`(?m)^\| \*\*([^*]+)\*\* \| [^|]+ \|$`).FindAllStringSubmatch(document(t, "docs/explanation/glossary.md"), -1) {
		word := strings.ToLower(m[1])
		if seen[word] {
			t.Errorf("%s stands twice", word)
		}
		if word < before {
			t.Errorf("%s stands after %s", word, before)
		}
		seen[word], before = true, word
	}
	if len(seen) < 30 {
		t.Errorf("only %d words", len(seen))
	}
}

// TestCitedDocumentsExist: every document that the code cites is in the repository.
func TestCitedDocumentsExist(t *testing.T) {
	cited := regexp.MustCompile(`\b[A-Z]{4,}\.md\b`)
	root, checked := filepath.Join("..", ".."), 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return fs.SkipDir
		}
		if d.IsDir() || !slices.Contains([]string{".go", ".md", ".yaml", ".txt", ".txtar"}, filepath.Ext(path)) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, name := range cited.FindAllString(string(text), -1) {
			checked++
			_, here := os.Stat(filepath.Join(filepath.Dir(path), name))
			if _, top := os.Stat(filepath.Join(root, name)); here != nil && top != nil {
				t.Errorf("%s cites %s, which is not in the repository", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if checked < 10 {
		t.Errorf("only %d citations", checked)
	}
}

// TestByteForByteIsQualified: members whose Java hashes share a bucket have another order. So every
// text that promises the layout of Google's utility byte for byte must mention this exception.
func TestByteForByteIsQualified(t *testing.T) {
	claims := 0
	for _, path := range []string{
		"CHANGELOG.md", "docs/how-to/google-utility.md", "examples/google-utility/README.md", "internal/config/preset.go", "transform/spec.go",
	} {
		words := strings.Join(strings.Fields(document(t, path)), " ")
		for i, claim := range strings.Split(words, "byte for byte")[1:] {
			claims++
			if !strings.HasPrefix(claim, " but for ") && !strings.HasPrefix(claim, " except for ") {
				t.Errorf("%s: claim %d is not qualified: byte for byte%.60s", path, i+1, claim)
			}
		}
	}
	if claims < 4 {
		t.Errorf("%d claims; this test looks in the wrong places", claims)
	}
}
