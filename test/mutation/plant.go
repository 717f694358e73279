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

// Planting: all bugs are compiled into one program, and an environment variable selects the active
// one. A function with a bug stays, and gets a copy with the bug beside it. The first statement of
// the original calls the copy if its bug is active. So a program with many bugs is built only once,
// and each bug behaves as if it were planted alone.

// awake is the environment variable with the number of the active bug, 1 for the first.
const awake = "REPLICATOR_PLANTED_BUG"

// plantedFile is added to each package that has a bug. %s is the package's name.
const plantedFile = `package %s

import (
	"os"
	"strconv"
)

var plantedBug, _ = strconv.Atoi(os.Getenv("` + awake + `"))
`

// plant writes the files with the bugs, and the overlay that makes the compiler use them instead of
// the tree's files. It returns the overlay's name. Without the environment variable the program has
// no active bug.
func plant(root, dir string, all []bug) (overlay string, err error) {
	if root, err = filepath.Abs(root); err != nil {
		return "", err
	}
	byFile := map[string][]int{}
	for i, b := range all {
		byFile[b.file] = append(byFile[b.file], i)
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
			b := all[numbers[0]]
			return "", b.errorf(b.line, "the product has no such file (%v): move the entries to the file that has their code now, or remove them", err)
		}
		text, name, err := plantFile(file, source, all, numbers)
		if err != nil {
			return "", err
		}
		if err := write(original, text); err != nil {
			return "", err
		}
		switcher := filepath.Join(filepath.Dir(original), "planted_bug.go")
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

// insertion is text to insert into a file.
type insertion struct {
	at   int
	text string
}

// plantFile returns a file with some bugs planted, and its package's name.
func plantFile(name string, source []byte, all []bug, numbers []int) ([]byte, string, error) {
	files := token.NewFileSet()
	tree, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, "", err
	}
	offset := func(p token.Pos) int { return files.Position(p).Offset }
	var calls []insertion
	var copies bytes.Buffer
	for _, i := range numbers {
		b := all[i]
		from, err := b.place(source)
		if err != nil {
			return nil, "", err
		}
		f := functionAt(tree, from, from+len(b.old), offset)
		if f == nil {
			return nil, "", b.errorf(b.line, "bug %q: what goes is not within the body of one function of %s", b.name, name)
		}
		copied := fmt.Sprintf("%s__bug%d", f.Name.Name, i+1)
		call, err := callOf(f, copied)
		if err != nil {
			return nil, "", b.errorf(b.line, "bug %q: %v", b.name, err)
		}
		calls = append(calls, insertion{offset(f.Body.Lbrace) + 1, fmt.Sprintf(" if plantedBug == %d { %s };", i+1, call)})
		start, end, named := offset(f.Pos()), offset(f.End()), offset(f.Name.End())
		fmt.Fprintf(&copies, "\n// %s:%d\n%s%s%s%s%s\n", b.text, b.line,
			source[start:offset(f.Name.Pos())], copied, source[named:from], b.new, source[from+len(b.old):end])
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

// functionAt returns the function whose body contains the bytes, or nil.
func functionAt(tree *ast.File, from, to int, offset func(token.Pos) int) *ast.FuncDecl {
	for _, d := range tree.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil && offset(f.Body.Lbrace) < from && to <= offset(f.Body.Rbrace) {
			return f
		}
	}
	return nil
}

// callOf returns the statement by which a function calls its copy.
func callOf(f *ast.FuncDecl, copied string) (string, error) {
	nameless := fmt.Errorf("function %s has a parameter or a receiver without a name: give it one, or plant the bug elsewhere", f.Name.Name)
	var arguments []string
	for _, field := range f.Type.Params.List {
		_, variadic := field.Type.(*ast.Ellipsis)
		if len(field.Names) == 0 {
			return "", nameless
		}
		for _, name := range field.Names {
			if name.Name == "_" {
				return "", nameless
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
			return "", nameless
		}
		call = f.Recv.List[0].Names[0].Name + "." + call
	}
	if f.Type.Results == nil {
		return call + "; return", nil
	}
	return "return " + call, nil
}
