package config

import (
	"fmt"
	"reflect"
	"sort"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// decoder fills a Config from a YAML document, as the schema defines, and collects all findings.
type decoder struct {
	file  string
	env   Lookup
	found diag.List
	lines []string                 // lines of the file
	where map[string]diag.Position // positions of all given values, sections and list entries
	// written is the form of each value in the file.
	written map[string]written
	bad     map[string]bool // paths with a refused value; they are not also reported as missing
}

func (d *decoder) at(n *yaml.Node) diag.Position {
	return diag.Position{File: d.file, Line: n.Line, Column: n.Column}
}

func (d *decoder) report(e diag.Error) { d.found = append(d.found, &e) }

// section decodes the keys of a mapping into the struct v.
func (d *decoder) section(f *field, n *yaml.Node, v reflect.Value, path string) {
	if n.Kind == yaml.AliasNode {
		d.bad[path] = true // reported by refuseFeatures
		return
	}
	if n.Tag == "!!null" && n.Value == "" {
		return // all keys of the section are commented out
	}
	if n.Kind != yaml.MappingNode {
		d.bad[path] = true
		d.report(diag.Error{Code: diag.WrongType, Pos: d.at(n), What: fmt.Sprintf("%s is %s", place(path), kindOf(n)),
			Cause: fmt.Sprintf("%s must have keys and values: %s", place(path), strings.Join(f.keys(), ", ")), Fix: sectionFix(f)})
		return
	}
	first := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.AliasNode || key.Tag == "!!merge" && key.Style == 0 {
			continue // reported by refuseFeatures
		}
		if key.Kind != yaml.ScalarNode {
			d.report(diag.Error{Code: diag.YAMLRefused, Pos: d.at(key), What: "a key in " + place(path) + " is not plain text",
				Cause: "a key is expected here, but this is a list or a mapping", Fix: "write a key, such as " + f.keys()[0]})
			continue
		}
		sub := f.find(key.Value)
		if sub == nil {
			d.unknown(f, key, path)
			continue
		}
		if earlier := first[sub.key]; earlier != nil {
			d.report(diag.Error{Code: diag.DuplicateKey, Pos: d.at(key), What: fmt.Sprintf("key %s given twice in %s", sub.key, place(path)),
				Cause: "first given at " + d.at(earlier).String()})
			continue
		}
		first[sub.key] = key
		d.value(sub, key, value, v.Field(sub.index), join(path, sub.key))
	}
}

func (d *decoder) value(f *field, key, n *yaml.Node, v reflect.Value, path string) {
	switch f.kind {
	case section:
		d.where[path] = d.at(key)
		d.section(f, n, v, path)
	case list:
		d.where[path] = d.at(key)
		d.list(f, n, v, path)
	case dictionary:
		d.where[path] = d.at(key)
		d.dictionary(f, n, v, path)
	case texts:
		d.where[path] = d.at(key)
		d.texts(f, n, v, path)
	default:
		d.scalar(f, n, v, path)
	}
}

func (d *decoder) list(f *field, n *yaml.Node, v reflect.Value, path string) {
	if n.Kind == yaml.AliasNode {
		d.bad[path] = true
		return
	}
	if n.Tag == "!!null" && n.Value == "" {
		return
	}
	if n.Kind != yaml.SequenceNode {
		d.bad[path] = true
		d.report(diag.Error{Code: diag.WrongType, Pos: d.at(n), What: fmt.Sprintf("%s is %s", path, kindOf(n)),
			Cause: path + " must be a list", Fix: "begin each entry with a dash:\n" + path + ":\n  - " + f.keys()[0] + ": …"})
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, entry := range n.Content {
		entryPath := fmt.Sprintf("%s[%d]", path, i)
		d.where[entryPath] = d.at(entry)
		d.section(f, entry, v.Index(i), entryPath)
	}
}

// scalar decodes one value of the file. It expands variables, and parses and checks the result.
func (d *decoder) scalar(f *field, n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" && n.Style == 0 {
		d.bad[path] = true
		if n.Kind == yaml.AliasNode {
			return
		}
		if n.Kind == yaml.ScalarNode {
			d.report(diag.Error{Code: diag.WrongType, Pos: d.at(n), What: path + " has no value",
				Cause: "the value is missing or null", Fix: "give a value, or remove the key"})
			return
		}
		d.report(diag.Error{Code: diag.WrongType, Pos: d.at(n), What: fmt.Sprintf("%s is %s", path, kindOf(n)),
			Cause: path + " must be a single value", Fix: "write " + path[strings.LastIndexByte(path, '.')+1:] + ": value"})
		return
	}
	text, err := expand(n.Value, d.env)
	if err != nil {
		d.fault(err, d.at(n), path, n.Value)
		return
	}
	d.text(f, text, v, path, d.at(n))
	d.written[path] = written{d.at(n), n.Style, text, n.Value, d.lines[min(n.Line-1, len(d.lines)):]}
}

// text stores a value from the file, a variable or a flag. An empty value counts as not given.
func (d *decoder) text(f *field, text string, v reflect.Value, path string, from diag.Position) {
	if text == "" {
		return
	}
	if !utf8.ValidString(text) { // the file is valid UTF-8, so the fault is in a variable or a flag
		d.fault(&fault{diag.InvalidValue, "not UTF-8 text", "one of its bytes is not part of any UTF-8 character", "set the variable or flag to text in UTF-8"}, from, path, "")
		return
	}
	if err := f.set(v, text); err != nil {
		d.fault(err, from, path, text)
		return
	}
	d.where[path] = from
}

// fault reports a fault in a value at its position.
func (d *decoder) fault(err *fault, pos diag.Position, path, value string) {
	d.bad[path] = true
	what := err.what
	if what == "" {
		what = diag.Shortened(value) + " is not accepted"
	}
	d.report(diag.Error{Code: err.code, Pos: pos, What: path + ": " + what, Cause: err.cause, Fix: err.fix})
}

// unknown reports a key that the section does not have. The key may belong to a later version or to
// another section, or be a typo.
func (d *decoder) unknown(f *field, key *yaml.Node, path string) {
	e := diag.Error{Code: diag.UnknownKey, Pos: d.at(key), What: fmt.Sprintf("unknown key %s in %s", diag.Shortened(key.Value), place(path)),
		Cause: fmt.Sprintf("%s takes %s", place(path), strings.Join(f.keys(), ", "))}
	if instead, ok := notAvailable[join(f.entryPath(), key.Value)]; ok {
		d.report(diag.Error{Code: diag.NotAvailable, Pos: d.at(key),
			What:  fmt.Sprintf("%s is known, but not available in this version", join(path, key.Value)),
			Cause: instead, Fix: "remove the key"})
		return
	}
	candidates := append(f.keys(), notAvailableIn(f.entryPath())...)
	near := diag.Suggest(key.Value, candidates)
	switch owners := ownersOf(&schema, key.Value); {
	case near != "" && f.find(near) == nil:
		e.Fix = fmt.Sprintf("did you mean %q? It is not available in this version", near)
	case near != "":
		e.Fix = fmt.Sprintf("did you mean %q?", near)
		d.bad[join(path, near)] = true // the key that was probably intended counts as given
	case path == "" && len(owners) > 0:
		// A section's key at the top level has probably lost its indentation.
		e.Fix = "did you mean " + alternatives(owners) + "?"
	default:
		e.Fix = "remove the key"
	}
	d.report(e)
}

// entryPath returns the common path of a section's or list entry's keys: "", "target", "tables[]".
func (f *field) entryPath() string {
	switch f.kind {
	case list:
		return f.path + "[]"
	case dictionary:
		return f.path + ".*"
	default:
		return f.path
	}
}

// place names a section for a message.
func place(path string) string {
	if path == "" {
		return "the top level"
	}
	return path
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		return "a single value"
	}
}

func sectionFix(f *field) string {
	switch f.kind {
	case list:
		return "write each entry as - " + f.keys()[0] + ": …"
	case dictionary:
		return "write each entry as name: { " + f.keys()[0] + ": … }"
	}
	if f.path == "" {
		return "begin with version: 1"
	}
	return fmt.Sprintf("write keys below it:\n%s:\n  %s: …", f.key, f.keys()[0])
}

// ownersOf returns the paths of all keys with the given name below the top level.
func ownersOf(f *field, key string) []string {
	var owners []string
	for i := range f.fields {
		sub := &f.fields[i]
		if f.path != "" && sub.key == key {
			owners = append(owners, sub.path)
		}
		owners = append(owners, ownersOf(sub, key)...)
	}
	return owners
}

// notAvailableIn returns the keys of notAvailable directly below a path, in a fixed order.
func notAvailableIn(path string) []string {
	var keys []string
	for known := range notAvailable {
		parent, key := "", known
		if i := strings.LastIndexByte(known, '.'); i >= 0 {
			parent, key = known[:i], known[i+1:]
		}
		if parent == path {
			keys = append(keys, key)
		}
	}
	sort.Strings(keys)
	return keys
}
