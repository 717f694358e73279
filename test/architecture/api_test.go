package architecture

import (
	"bytes"
	"fmt"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// apiFolder has one file for each public package, with its exported names.
const apiFolder = "testdata/api"

// publicPackages lists the packages that other programs may import, except packages for their tests
// of implementations, such as attribute/attributetest.
func publicPackages(t *testing.T) (found []string) {
	t.Helper()
	out, err := exec.Command("go", "list", module+"/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		name := strings.TrimPrefix(strings.TrimSpace(line), module+"/")
		if public(module+"/"+name) && filepath.Base(name) != filepath.Base(filepath.Dir(name))+"test" {
			found = append(found, name)
		}
	}
	return found
}

// TestAPIIsKept: the exported names of the public packages are those in apiFolder. So each change of
// them is seen in a review. go test ./test/architecture -run APIIsKept -update writes the files.
// Names that the last release had, and that are gone or changed, must be in the changelog.
func TestAPIIsKept(t *testing.T) {
	names := publicPackages(t)
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = module + "/" + name
	}
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadTypes}, paths...)
	if err != nil || len(loaded) != len(names) {
		t.Fatalf("%d packages of %d, %v", len(loaded), len(names), err)
	}
	release, changelog := lastRelease(t), document(t, "CHANGELOG.md")
	for _, p := range loaded {
		name := strings.TrimPrefix(p.PkgPath, module+"/")
		file := apiFolder + "/" + strings.ReplaceAll(name, "/", "_") + ".txt"
		present := exportedLines(p.Types)
		if *update {
			if err := os.WriteFile(file, []byte(strings.Join(present, "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		listed := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		for _, line := range missing(listed, present) {
			t.Errorf("%s: gone or changed: %s: if that is right, run go test ./test/architecture -run APIIsKept -update", name, line)
		}
		for _, line := range missing(present, listed) {
			t.Errorf("%s: new: %s: run go test ./test/architecture -run APIIsKept -update", name, line)
		}
		for _, gone := range unannounced(name, released(release, file), present, changelog) {
			t.Errorf("%s: release %s has it, and CHANGELOG.md does not name it below Unreleased", gone, release)
		}
	}
	files, err := filepath.Glob(apiFolder + "/*.txt")
	if err != nil || len(files) != len(names) {
		t.Errorf("%d files in %s, %d public packages, %v", len(files), apiFolder, len(names), err)
	}
}

// lastRelease returns the last tag; "" if there is none, or if this is not a clone.
func lastRelease(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("git", "describe", "--tags", "--abbrev=0", "--match", "v*").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// released returns the lines that a file had in a release; none if the release has no such file.
func released(tag, file string) []string {
	if tag == "" {
		return nil
	}
	out, err := exec.Command("git", "show", tag+":./"+file).Output()
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
}

// missing returns the lines of one list that are not in another.
func missing(from, in []string) (lines []string) {
	for _, line := range from {
		if !slices.Contains(in, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// unannounced returns the names, such as sink.Writer.Write, that were released, are gone or changed,
// and are not in the changelog below Unreleased.
func unannounced(pkg string, released, present []string, changelog string) (names []string) {
	_, announced, _ := strings.Cut(changelog, "## Unreleased")
	announced, _, _ = strings.Cut(announced, "\n## ")
	for _, line := range missing(released, present) {
		name := pkg + "." + strings.Fields(line)[1]
		if !strings.Contains(announced, "`"+name+"`") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// exportedLines describes each exported name of a package in one line. The second word is the name,
// of a field or method with that of its type.
func exportedLines(p *types.Package) (lines []string) {
	short := func(o *types.Package) string {
		if o == p {
			return ""
		}
		return o.Path()
	}
	add := func(format string, a ...any) { lines = append(lines, fmt.Sprintf(format, a...)) }
	for _, name := range p.Scope().Names() {
		o := p.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		switch o := o.(type) {
		case *types.Const:
			add("const %s %s = %s", name, types.TypeString(o.Type(), short), o.Val().ExactString())
		case *types.Var:
			add("var %s %s", name, types.TypeString(o.Type(), short))
		case *types.Func:
			add("func %s %s", name, signature(o, short))
		case *types.TypeName:
			lines = append(lines, typeLines(o, short)...)
		}
	}
	slices.Sort(lines)
	return lines
}

// typeLines describes a type, its exported fields and its methods.
func typeLines(o *types.TypeName, short types.Qualifier) (lines []string) {
	add := func(format string, a ...any) { lines = append(lines, fmt.Sprintf(format, a...)) }
	if o.IsAlias() {
		add("type %s = %s", o.Name(), types.TypeString(types.Unalias(o.Type()), short))
		return lines
	}
	parameters := ""
	if n, ok := o.Type().(*types.Named); ok && n.TypeParams().Len() > 0 {
		var b bytes.Buffer
		types.WriteType(&b, n, short)
		parameters = strings.TrimPrefix(b.String(), o.Name())
	}
	switch under := o.Type().Underlying().(type) {
	case *types.Struct:
		add("type %s%s struct", o.Name(), parameters)
		for f := range under.Fields() {
			switch {
			case f.Exported() && f.Embedded():
				add("field %s.%s embedded %s", o.Name(), f.Name(), types.TypeString(f.Type(), short))
			case f.Exported():
				add("field %s.%s %s", o.Name(), f.Name(), types.TypeString(f.Type(), short))
			}
		}
	case *types.Interface:
		add("type %s%s interface", o.Name(), parameters)
		for m := range under.Methods() {
			if m.Exported() {
				add("method %s.%s %s", o.Name(), m.Name(), signature(m, short))
			} else {
				add("method %s.unexported: no other package can implement it", o.Name())
			}
		}
		return lines
	default:
		add("type %s%s %s", o.Name(), parameters, types.TypeString(under, short))
	}
	set := types.NewMethodSet(types.NewPointer(o.Type()))
	values := types.NewMethodSet(o.Type())
	for i := range set.Len() {
		m, ok := set.At(i).Obj().(*types.Func)
		if !ok || !m.Exported() {
			continue
		}
		receiver := "pointer"
		if values.Lookup(m.Pkg(), m.Name()) != nil {
			receiver = "value"
		}
		add("method %s.%s of %s %s", o.Name(), m.Name(), receiver, signature(m, short))
	}
	return lines
}

// signature returns the parameters and results of a function, without the names of parameters,
// which callers cannot use.
func signature(f *types.Func, short types.Qualifier) string {
	s := f.Signature()
	unnamed := func(of *types.Tuple) *types.Tuple {
		var vars []*types.Var
		for v := range of.Variables() {
			vars = append(vars, types.NewParam(0, nil, "", v.Type()))
		}
		return types.NewTuple(vars...)
	}
	plain := types.NewSignatureType(nil, nil, nil, unnamed(s.Params()), unnamed(s.Results()), s.Variadic())
	return strings.TrimPrefix(types.TypeString(plain, short), "func")
}

// What a release had must not change without a line in the changelog.
func TestUnannounced(t *testing.T) {
	released := []string{"func New (Config) *Writer", "type Writer struct", "method Writer.Write of pointer (string) error", "const Most int = 3"}
	const announced = "# Changelog\n\n## Unreleased\n\n- `sink.Writer.Write` takes a context.\n\n## 0.1.0\n\n- `sink.New`.\n"
	for _, c := range []struct {
		name    string
		present []string
		want    string
	}{
		{"unchanged", released, ""},
		{"more", append(slices.Clone(released), "func Open () error"), ""},
		{"a function is gone", released[1:], "sink.New"},
		{"a method has changed, as announced", append([]string{"method Writer.Write of pointer (context.Context, string) error"}, append(slices.Clone(released[:2]), released[3])...), ""},
		{"a value has changed", append([]string{"const Most int = 4"}, released[:3]...), "sink.Most"},
		{"a type has changed", append([]string{"type Writer interface"}, append(slices.Clone(released[:1]), released[2:]...)...), "sink.Writer"},
	} {
		if got := strings.Join(unannounced("sink", released, c.present, announced), " "); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
