package architecture

import (
	"go/ast"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// kept lists exported names that no other package uses but that stay exported, with the reason. A
// key that ends with a dot covers all names with that prefix.
var kept = map[string]string{
	"attribute.AppendValue":         "AppendItem's part for one value",
	"checkpoint.DeadLetter.":        "pure questions to a record that the ledger gives",
	"checkpoint.Ledger.ClockOffset": "a program that embeds the ledger watches its clock",
	"checkpoint.Ledger.Name":        "a program with several ledgers tells them apart",
	"examples/":                     "shown, and copied",
	"internal/clock.Limit":          "its tests stand outside",
	"internal/engine.Right.Current": "its tests stand outside",
	"internal/evidence.Event":       "the reference names it",
	"internal/lever.Document":       "the reference names it",
	"internal/lever.FailedOver":     "the reference names it",
	"internal/load.ErrReplaced":     "the module beam uses it",
	"internal/load.Order.Judge":     "the module beam uses it",
	"internal/standing.Lent":        "the module beam uses it",
	"internal/starter.Document":     "the reference names it",
	"internal/worker.Lending.":      "the module beam uses it",
	"transform.Comparing":           "what a Condition of one's own may have besides",
	"transform.Part.":               "a template is looked into",
	"transform.Template.Parts":      "a template is looked into",
	"verify.Judge":                  "a comparison of one's own judges as ours",
	"verify.Result.":                "questions to a result",
	"verify.Scope.":                 "questions to a scope",
	"verify.Sums.":                  "a comparison of one's own sums up as ours",
}

// TestExportedNamesHaveUsers: every exported function, type, variable, constant and method has a
// user. Users are other packages, their tests, Examples, page templates and, for a public package,
// its external tests. A type is also used if a used name mentions it, and then so are its
// constants. Exempt are methods that an interface requires, and constants and errors of public
// packages, which are documentation.
func TestExportedNamesHaveUsers(t *testing.T) {
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax, Tests: true}, module+"/...")
	if err != nil {
		t.Fatal(err)
	}
	users, asked := map[string]bool{}, askers{}
	var shipped []*packages.Package
	for _, p := range loaded {
		for _, e := range p.Errors {
			t.Errorf("%s: %v", p.ID, e)
		}
		collectUses(p, users)
		asked.collect(p)
		// Skips test variants, programs, and packages that prove or measure.
		first, _, _ := strings.Cut(strings.TrimPrefix(p.PkgPath, module+"/"), "/")
		if p.ID == p.PkgPath && p.Name != "main" && first != "test" && first != "bench" {
			shipped = append(shipped, p)
		}
	}
	if t.Failed() {
		return
	}
	for _, p := range shipped {
		asked.collectPromoted(p.Types, users)
	}
	for _, p := range shipped {
		keepMentioned(p.Types, users)
	}
	shown, used := templates(t), map[string]bool{}
	for _, p := range shipped {
		for _, name := range unused(p.Types, users, asked) {
			reason := slices.IndexFunc(slices.Collect(maps.Keys(kept)), func(key string) bool { return covers(key, name) })
			if reason < 0 && !shown[name[strings.LastIndex(name, ".")+1:]] {
				t.Errorf("nothing outside of its package uses %s: do not export it", name)
			}
			for key := range kept {
				used[key] = used[key] || covers(key, name)
			}
		}
	}
	for key := range kept {
		if !used[key] {
			t.Errorf("%s is gone, or has a user: take it from the list of what is kept", key)
		}
	}
}

// covers reports whether a key of kept covers a name.
func covers(key, name string) bool {
	return key == name || strings.HasPrefix(name, key) && (strings.HasSuffix(key, ".") || strings.HasSuffix(key, "/"))
}

// templates lists the names that page templates use.
func templates(t *testing.T) map[string]bool {
	t.Helper()
	paths, err := filepath.Glob("../../internal/*/*.html")
	if err != nil || len(paths) == 0 {
		t.Fatal(paths, err)
	}
	names := map[string]bool{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile(`\.([A-Z]\w*)`).FindAllStringSubmatch(string(text), -1) {
			names[found[1]] = true
		}
	}
	return names
}

// public reports whether other programs may import a package.
func public(path string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, module+"/"), "/")
	return !slices.Contains(notPublic, first)
}

// keyOf names an object of a package's scope, or a method of a type in it: transform.Fold,
// cdc.Reader.Read. For other objects it returns "".
func keyOf(o types.Object) string {
	if o == nil || o.Pkg() == nil || !o.Exported() {
		return ""
	}
	path, ours := strings.CutPrefix(o.Pkg().Path(), module+"/")
	if !ours {
		return ""
	}
	if f, ok := o.(*types.Func); ok {
		if r := f.Origin().Signature().Recv(); r != nil {
			of := named(r.Type())
			if of == nil || !of.Obj().Exported() {
				return ""
			}
			return path + "." + of.Obj().Name() + "." + f.Name()
		}
	}
	if o.Parent() != o.Pkg().Scope() {
		return ""
	}
	return path + "." + o.Name()
}

// named returns the defined type of a type or of its pointer.
func named(t types.Type) *types.Named {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		t = p.Elem()
	}
	n, _ := types.Unalias(t).(*types.Named)
	return n
}

// collectUses records the names of other packages that a package uses.
func collectUses(p *packages.Package, users map[string]bool) {
	user := strings.TrimSuffix(p.PkgPath, "_test")
	for _, file := range p.Syntax {
		example := strings.HasPrefix(filepath.Base(p.Fset.Position(file.Package).Filename), "example")
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				o := p.TypesInfo.Uses[id]
				if o != nil && o.Pkg() != nil && (o.Pkg().Path() != user || example || p.PkgPath != user && public(user)) {
					users[keyOf(o)] = true
				}
			}
			return true
		})
	}
}

// byConvention lists methods of interfaces that the standard library does not export, or that no
// package here imports.
var byConvention = []string{"Error", "Unwrap", "Is", "As", "String", "MarshalText", "UnmarshalText", "MarshalBinary", "UnmarshalBinary", "MarshalYAML", "UnmarshalYAML"}

// askers holds interfaces by the names of their methods.
type askers map[string]map[*types.Interface]bool

// collect adds the interfaces that a package contains or imports.
func (a askers) collect(p *packages.Package) {
	add := func(t types.Type) {
		i, ok := t.Underlying().(*types.Interface)
		if !ok {
			return
		}
		for m := range i.Methods() {
			if a[m.Name()] == nil {
				a[m.Name()] = map[*types.Interface]bool{}
			}
			a[m.Name()][i] = true
		}
	}
	for _, v := range p.TypesInfo.Types {
		if v.IsType() {
			add(v.Type)
		}
	}
	for _, imported := range p.Types.Imports() {
		for _, name := range imported.Scope().Names() {
			if o, ok := imported.Scope().Lookup(name).(*types.TypeName); ok {
				add(o.Type())
			}
		}
	}
}

// ask reports whether an interface requires the method, and the type has all methods of that
// interface by name.
func (a askers) ask(n *types.Named, method string) bool {
	if slices.Contains(byConvention, method) {
		return true
	}
	set := types.NewMethodSet(types.NewPointer(n))
	for i := range a[method] {
		all := true
		for m := range i.Methods() {
			all = all && set.Lookup(m.Pkg(), m.Name()) != nil
		}
		if all {
			return true
		}
	}
	return false
}

// collectPromoted records promoted methods as used: those that satisfy an interface for a type that
// embeds a type of another package.
func (a askers) collectPromoted(p *types.Package, users map[string]bool) {
	for _, name := range p.Scope().Names() {
		n := named(p.Scope().Lookup(name).Type())
		if n == nil || n.Obj().Pkg() != p || n.Obj().Name() != name || types.IsInterface(n) {
			continue
		}
		set := types.NewMethodSet(types.NewPointer(n))
		for i := range set.Len() {
			f := set.At(i).Obj()
			if f.Pkg() != nil && f.Pkg() != p && a.ask(n, f.Name()) {
				users[keyOf(f)] = true
			}
		}
	}
}

// keepMentioned records as used the types that used names mention. A result of an unexported type
// would be of little use to callers.
func keepMentioned(p *types.Package, users map[string]bool) {
	for grown := true; grown; {
		grown = false
		keep := func(n *types.Named) {
			if key := keyOf(n.Obj()); key != "" && !users[key] {
				users[key], grown = true, true
			}
		}
		for _, name := range p.Scope().Names() {
			o := p.Scope().Lookup(name)
			if !users[keyOf(o)] {
				continue
			}
			mentioned(o.Type(), keep, map[types.Type]bool{})
			if n := named(o.Type()); n != nil && n.Obj() == o {
				for m := range n.Methods() {
					if users[keyOf(m)] {
						mentioned(m.Type(), keep, map[types.Type]bool{})
					}
				}
			}
		}
	}
}

// mentioned calls keep for each defined type that a type mentions: in parameters, elements and
// exported fields.
func mentioned(t types.Type, keep func(*types.Named), seen map[types.Type]bool) {
	if seen[t] {
		return
	}
	seen[t] = true
	switch t := types.Unalias(t).(type) {
	case *types.Named:
		keep(t)
		for a := range t.TypeArgs().Types() {
			mentioned(a, keep, seen)
		}
		mentioned(t.Underlying(), keep, seen)
	case *types.Struct:
		for f := range t.Fields() {
			if f.Exported() {
				mentioned(f.Type(), keep, seen)
			}
		}
	case *types.Signature:
		mentioned(t.Params(), keep, seen)
		mentioned(t.Results(), keep, seen)
	case *types.Tuple:
		for v := range t.Variables() {
			mentioned(v.Type(), keep, seen)
		}
	case *types.Interface:
		for m := range t.Methods() {
			mentioned(m.Type(), keep, seen)
		}
	case *types.Map:
		mentioned(t.Key(), keep, seen)
		mentioned(t.Elem(), keep, seen)
	case interface{ Elem() types.Type }:
		mentioned(t.Elem(), keep, seen)
	}
}

// unused lists the exported names of a package that have no user.
func unused(p *types.Package, users map[string]bool, asked askers) (out []string) {
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		key := keyOf(o)
		if key == "" {
			continue
		}
		n := named(o.Type())
		if v, ok := o.(*types.Var); ok && public(p.Path()) && strings.HasPrefix(v.Name(), "Err") {
			continue // callers compare with it
		}
		if _, ok := o.(*types.Const); ok && public(p.Path()) {
			continue // documentation
		}
		if c, ok := o.(*types.Const); ok && n != nil && n.Obj().Pkg() == p && users[keyOf(n.Obj())] && c.Type() == n {
			continue // kept with its type
		}
		if !users[key] {
			out = append(out, key)
		}
		if n == nil || n.Obj() != o || types.IsInterface(n) {
			continue
		}
		for m := range n.Methods() {
			if key := keyOf(m); key != "" && !users[key] && !asked.ask(n, m.Name()) {
				out = append(out, key)
			}
		}
	}
	slices.Sort(out)
	return out
}
