package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Planting: all bugs are compiled into one program, and a variable of the environment says which of them is awake. A function with a
// bug is kept as it is, with a copy of it that has the bug beside it; the first thing the original does is to call the copy if it is the one
// that is awake. So a table of many bugs is built once, and each of them is what it would be if it stood there alone.

// awake is the variable of the environment: the number of a mutant, 1 for the first.
const awake = "REPLICATOR_MUTANT"

// plantedFile is added to each package that has a mutant. %s is the package's name.
const plantedFile = `package %s

import (
	"os"
	"strconv"
)

var plantedMutant, _ = strconv.Atoi(os.Getenv("` + awake + `"))
`

// plant writes the files with the mutants in them, and the overlay that has the compiler take them in place of those of the tree at
// root. It returns the overlay's name. Nothing is awake in what is built with it unless the environment says so.
func plant(root, dir string, all []mutant) (overlay string, err error) {
	if root, err = filepath.Abs(root); err != nil {
		return "", err
	}
	byFile := map[string][]int{}
	for i, m := range all {
		byFile[m.file] = append(byFile[m.file], i)
	}
	replace := map[string]string{}
	write := func(original string, text []byte) error {
		name := filepath.Join(dir, fmt.Sprintf("planted%d.go", len(replace)))
		replace[original] = name
		return os.WriteFile(name, text, 0o600)
	}
	for file, numbers := range byFile {
		original := filepath.Join(root, file)
		source, err := os.ReadFile(original)
		if err != nil {
			return "", err
		}
		text, name, err := plantFile(file, source, all, numbers)
		if err != nil {
			return "", err
		}
		if err := write(original, text); err != nil {
			return "", err
		}
		switcher := filepath.Join(filepath.Dir(original), "planted_mutant.go")
		if replace[switcher] == "" {
			if err := write(switcher, fmt.Appendf(nil, plantedFile, name)); err != nil {
				return "", err
			}
		}
	}
	data, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o600)
}

// insertion is text that is put into a file.
type insertion struct {
	at   int
	text string
}

// plantFile gives a file with some of the mutants in it, and its package's name.
func plantFile(name string, source []byte, all []mutant, numbers []int) ([]byte, string, error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, "", err
	}
	offset := func(p token.Pos) int { return files.Position(p).Offset }
	var calls []insertion
	var copies bytes.Buffer
	for _, i := range numbers {
		m := all[i]
		if n := bytes.Count(source, []byte(m.old)); n != 1 {
			// A mutant that no longer applies proves nothing.
			return nil, "", fmt.Errorf("mutant %q: its text occurs %d times in %s", m.name, n, m.file)
		}
		from := bytes.Index(source, []byte(m.old))
		at := slices.IndexFunc(tree.Decls, func(d ast.Decl) bool { return offset(d.Pos()) <= from && from+len(m.old) <= offset(d.End()) })
		if at < 0 {
			return nil, "", fmt.Errorf("mutant %q: its text is not within one function", m.name)
		}
		f, ok := tree.Decls[at].(*ast.FuncDecl)
		if !ok || from <= offset(f.Type.End()) {
			return nil, "", fmt.Errorf("mutant %q: its text is not within a function's body", m.name)
		}
		copied := fmt.Sprintf("%s__mutant%d", f.Name.Name, i+1)
		call, err := callOf(f, copied)
		if err != nil {
			return nil, "", fmt.Errorf("mutant %q: %w", m.name, err)
		}
		calls = append(calls, insertion{offset(f.Body.Lbrace) + 1, fmt.Sprintf(" if plantedMutant == %d { %s };", i+1, call)})
		start, end := offset(f.Pos()), offset(f.End())
		named := offset(f.Name.End())
		fmt.Fprintf(&copies, "\n// %s\n%s%s%s%s%s\n", m.name,
			source[start:offset(f.Name.Pos())], copied, source[named:from], m.new, source[from+len(m.old):end])
	}
	slices.SortStableFunc(calls, func(a, b insertion) int { return a.at - b.at })
	var out bytes.Buffer
	last := 0
	for _, c := range calls {
		out.Write(source[last:c.at])
		out.WriteString(c.text)
		last = c.at
	}
	out.Write(source[last:])
	out.Write(copies.Bytes())
	return out.Bytes(), tree.Name.Name, nil
}

// callOf is the statement by which a function has another do its work.
func callOf(f *ast.FuncDecl, copied string) (string, error) {
	var arguments []string
	for _, field := range f.Type.Params.List {
		_, variadic := field.Type.(*ast.Ellipsis)
		if len(field.Names) == 0 {
			return "", fmt.Errorf("function %s has a parameter without a name", f.Name.Name)
		}
		for _, name := range field.Names {
			if name.Name == "_" {
				return "", fmt.Errorf("function %s has a parameter without a name", f.Name.Name)
			}
			argument := name.Name
			if variadic {
				argument += "..."
			}
			arguments = append(arguments, argument)
		}
	}
	call := copied + "(" + strings.Join(arguments, ", ") + ")"
	if f.Recv != nil {
		if len(f.Recv.List[0].Names) == 0 {
			return "", fmt.Errorf("method %s has a receiver without a name", f.Name.Name)
		}
		call = f.Recv.List[0].Names[0].Name + "." + call
	}
	if f.Type.Results == nil {
		return call + "; return", nil
	}
	return "return " + call, nil
}
