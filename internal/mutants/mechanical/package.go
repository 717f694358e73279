package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const module = "github.com/dynamodb-bigtable/replicator/"

// listed is what `go list` tells of a package.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// plant writes instrumented copies of all files of the packages of the tree at root, and the overlay that has the compiler take them.
func plant(root, dir string, packages []string) (overlay string, points []point, err error) {
	arguments := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}
	for _, p := range packages {
		arguments = append(arguments, module+p)
	}
	c := exec.Command("go", arguments...)
	c.Dir, c.Stderr = root, os.Stderr
	out, err := c.Output()
	if err != nil {
		return "", nil, fmt.Errorf("go list: %w", err)
	}
	all := map[string]listed{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := d.Decode(&l); err == io.EOF {
			break
		} else if err != nil {
			return "", nil, err
		}
		all[l.ImportPath] = l
	}
	replace := map[string]string{}
	for _, name := range packages {
		files, err := load(all[module+name], all)
		if err != nil {
			return "", nil, err
		}
		for _, f := range files {
			f.name = name + "/" + filepath.Base(f.path)
			f.first = len(points) + 1
			text := f.instrument()
			if len(f.points) == 0 {
				continue
			}
			points = append(points, f.points...)
			copied := filepath.Join(dir, fmt.Sprintf("planted%d.go", len(replace)))
			if err := os.WriteFile(copied, text, 0o600); err != nil {
				return "", nil, err
			}
			replace[f.path] = copied
		}
	}
	data, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", nil, err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, points, os.WriteFile(overlay, data, 0o600)
}

// load parses and checks a package, with what the compiler exported of those it imports.
func load(l listed, all map[string]listed) ([]*file, error) {
	set := token.NewFileSet()
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
		Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
	}
	var files []*file
	var trees []*ast.File
	for _, name := range l.GoFiles {
		f := &file{set: set, info: info, path: filepath.Join(l.Dir, name)}
		var err error
		if f.source, err = os.ReadFile(f.path); err != nil {
			return nil, err
		}
		if f.tree, err = parser.ParseFile(set, f.path, f.source, parser.ParseComments|parser.SkipObjectResolution); err != nil {
			return nil, err
		}
		files, trees = append(files, f), append(trees, f.tree)
	}
	exported := importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(all[path].Export) })
	pkg, err := (&types.Config{Importer: exported}).Check(l.ImportPath, set, trees, info)
	for _, f := range files {
		f.pkg = pkg
	}
	return files, err
}

// point is a place with a planted bug.
type point struct {
	File     string
	Line     int
	Function string
	Operator string
	Before   string // the text, on one line
	After    string // what the bug makes of it, for people
}

func (p point) String() string {
	return fmt.Sprintf("%s:%d | %s | %s | %s → %s", p.File, p.Line, p.Function, p.Operator, p.Before, p.After)
}

// file is one that is instrumented. Its text stays as it is, with calls of package planted put around parts of it.
type file struct {
	set        *token.FileSet
	info       *types.Info
	pkg        *types.Package
	path, name string // name is from the root
	source     []byte
	tree       *ast.File
	first      int // the number of its first point
	function   *ast.FuncDecl
	points     []point
	edits      []edit
}

// edit puts text in the place of the bytes from at to end.
type edit struct {
	at, end int
	closes  bool // it ends something: before what begins at the same place, and in the opposite order
	text    string
}

func (f *file) offset(p token.Pos) int { return f.set.Position(p).Offset }

func (f *file) text(n ast.Node) string { return string(f.source[f.offset(n.Pos()):f.offset(n.End())]) }

// add notes a point at a node, and gives its number.
func (f *file) add(at ast.Node, operator, after string) int {
	line := func(s string) string {
		s = strings.Join(strings.Fields(s), " ")
		if len(s) > 90 {
			s = strings.ToValidUTF8(s[:90], "") + "…"
		}
		return s
	}
	p := point{f.name, f.set.Position(at.Pos()).Line, f.function.Name.Name, operator, line(f.text(at)), line(after)}
	if f.function.Recv != nil {
		p.Function = strings.TrimPrefix(f.text(f.function.Recv.List[0].Type), "*") + "." + p.Function
	}
	f.points = append(f.points, p)
	return f.first + len(f.points) - 1
}

// around puts text before and after a node. What is put around the same node first is outermost.
func (f *file) around(n ast.Node, before, after string) {
	at, end := f.offset(n.Pos()), f.offset(n.End())
	f.edits = append(f.edits, edit{at, at, false, before}, edit{end, end, true, after})
}

// before puts text in the place of what begins something; between does where something has ended. Nothing else is changed there.
func (f *file) before(from, to token.Pos, text string) {
	f.edits = append(f.edits, edit{f.offset(from), f.offset(to), false, text})
}

func (f *file) between(from, to token.Pos, text string) {
	f.edits = append(f.edits, edit{f.offset(from), f.offset(to), true, text})
}

// instrument gives the file with all of its points.
func (f *file) instrument() []byte {
	for _, d := range f.tree.Decls {
		if function, ok := d.(*ast.FuncDecl); ok && function.Body != nil {
			f.function = function
			f.walk(function.Body)
		}
	}
	named := f.tree.Name.End()
	f.before(named, named, `; import "`+module+`internal/mutants/mechanical/planted"`)
	return apply(f.source, f.edits)
}

func apply(source []byte, edits []edit) []byte {
	order := make([]int, len(edits))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := edits[i], edits[j]
		switch {
		case a.at != b.at:
			return a.at - b.at
		case a.closes != b.closes && a.closes:
			return -1
		case a.closes != b.closes:
			return 1
		case a.closes:
			return j - i
		}
		return i - j
	})
	var out bytes.Buffer
	last := 0
	for _, i := range order {
		e := edits[i]
		out.Write(source[last:e.at])
		out.WriteString(e.text)
		last = e.end
	}
	out.Write(source[last:])
	return out.Bytes()
}
