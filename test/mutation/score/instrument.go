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

// listed is a package as `go list` prints it.
type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// instrument writes copies of a package's files with all sites, and the overlay that makes the
// compiler use them. The package path is relative to the module's root, the working directory of go
// list.
func instrument(root, dir, name string) (overlay string, sites []site, err error) {
	c := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles", module+name)
	c.Dir, c.Stderr = root, os.Stderr
	out, err := c.Output()
	if err != nil {
		return "", nil, fmt.Errorf("go list %s%s: %w", module, name, err)
	}
	all := map[string]listed{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var l listed
		if err := d.Decode(&l); err == io.EOF {
			break
		} else if err != nil {
			return "", nil, fmt.Errorf("go list %s%s: %w", module, name, err)
		}
		all[l.ImportPath] = l
	}
	files, err := load(all[module+name], all)
	if err != nil {
		return "", nil, err
	}
	replace := map[string]string{}
	for _, f := range files {
		f.first = len(sites) + 1
		if text := f.instrument(); len(f.sites) > 0 {
			sites = append(sites, f.sites...)
			replace[f.path] = filepath.Join(dir, filepath.Base(f.path))
			if err := os.WriteFile(replace[f.path], text, 0o600); err != nil {
				return "", nil, err
			}
		}
	}
	data, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return "", nil, err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, sites, os.WriteFile(overlay, data, 0o600)
}

// load parses and type-checks a package, with the export data of its imports.
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

// site is a place with a planted bug.
type site struct {
	number   int
	line     int
	file     string
	function string
	operator string
	before   string // the original text, on one line,
	after    string // and the text with the bug, for people
}

// text omits the line number, so that it stays the same when other code of the file changes.
func (p site) text() string {
	return fmt.Sprintf("%s %s: %s: %s → %s", p.file, p.function, p.operator, p.before, p.after)
}

// file is a file to instrument. Its text stays, with calls of package byrule put around parts of
// it.
type file struct {
	set      *token.FileSet
	info     *types.Info
	pkg      *types.Package
	path     string
	source   []byte
	tree     *ast.File
	first    int // the number of its first site
	function *ast.FuncDecl
	sites    []site
	edits    []edit
}

// edit replaces the bytes from at to end with text.
type edit struct {
	at, end int
	closes  bool // it closes a call: it goes before edits that open one at the same place, and in reverse order
	text    string
}

func (f *file) offset(p token.Pos) int { return f.set.Position(p).Offset }

func (f *file) text(n ast.Node) string { return string(f.source[f.offset(n.Pos()):f.offset(n.End())]) }

// add records a site at a node, and returns its number.
func (f *file) add(at ast.Node, operator, after string) int {
	line := func(s string) string {
		s = strings.Join(strings.Fields(s), " ")
		if len(s) > 90 {
			s = strings.ToValidUTF8(s[:90], "") + "…"
		}
		return s
	}
	p := site{f.first + len(f.sites), f.set.Position(at.Pos()).Line, filepath.Base(f.path), f.function.Name.Name, operator, line(f.text(at)), line(after)}
	if f.function.Recv != nil {
		p.function = strings.TrimPrefix(f.text(f.function.Recv.List[0].Type), "*") + "." + p.function
	}
	f.sites = append(f.sites, p)
	return p.number
}

// around puts text before and after a node. The first text around a node is outermost.
func (f *file) around(n ast.Node, before, after string) {
	at, end := f.offset(n.Pos()), f.offset(n.End())
	f.edits = append(f.edits, edit{at, at, false, before}, edit{end, end, true, after})
}

// instrument returns the file with all of its sites.
func (f *file) instrument() []byte {
	for _, d := range f.tree.Decls {
		if function, ok := d.(*ast.FuncDecl); ok && function.Body != nil {
			f.function = function
			f.walk(function.Body)
		}
	}
	named := f.offset(f.tree.Name.End())
	f.edits = append(f.edits, edit{named, named, false, `; import "` + module + `test/mutation/score/byrule"`})
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
