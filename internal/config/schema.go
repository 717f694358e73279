package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// kind is the type of a configuration key.
type kind int

const (
	section    kind = iota // struct: a section of keys and values
	list                   // list of sections
	dictionary             // sections with names that the user chooses, in the order of the file
	texts                  // list of texts
	text                   // one of the string types
	truth                  // bool
	count                  // int
	duration               // time.Duration
)

// field is one key of the schema, derived from a struct field and its tags.
type field struct {
	key    string
	path   string // path of the key, with [] for list entries: "tables[].from"
	kind   kind
	index  int     // index of the struct field
	fields []field // keys of a section, or of the entries of a list or dictionary
	short  *field  // for a dictionary: the key that an entry sets if it is a single value
	only   bool    // for a dictionary: all entries must be single values
	omit   bool    // Print leaves the key out if it is empty
	filled bool    // for texts: a list without elements is refused
	single bool    // for texts: the only element may be written without a list

	fallback string
	required string // an example; empty when not required
	oneOf    []string
	later    []string
	min, max string
	check    string
	env      string
	unset    string
	secret   bool // Print shows only the host
}

// nameKey is the key in the tag of a struct's first field, if it holds the name of a dictionary's
// entry. Its tag short names the key that an entry sets if it is a single value.
const nameKey = "@"

// schema describes the whole configuration, as a section without a key.
var schema = field{kind: section, fields: fieldsOf(reflect.TypeFor[Config](), "")}

// fieldsOf derives the schema of a struct. It panics if a type cannot be decoded, which is a bug.
func fieldsOf(t reflect.Type, prefix string) []field {
	var fields []field
	for i := range t.NumField() {
		sf := t.Field(i)
		if !sf.IsExported() {
			continue
		}
		tag := sf.Tag
		f := field{
			key: tag.Get("key"), path: join(prefix, tag.Get("key")), index: i,
			fallback: tag.Get("default"), required: tag.Get("required"),
			oneOf: commas(tag.Get("oneof")), later: commas(tag.Get("later")),
			min: tag.Get("min"), max: tag.Get("max"),
			check: tag.Get("check"), env: tag.Get("env"), unset: tag.Get("unset"), omit: tag.Get("omit") != "", filled: tag.Get("filled") != "",
			single: tag.Get("single") != "", secret: tag.Get("secret") != "",
		}
		if f.key == nameKey {
			continue // the name of a dictionary's entry, not a key below it
		}
		switch {
		case sf.Type == reflect.TypeFor[time.Duration]():
			f.kind = duration
		case sf.Type.Kind() == reflect.String:
			f.kind = text
		case sf.Type.Kind() == reflect.Bool:
			f.kind = truth
		case sf.Type.Kind() == reflect.Int:
			f.kind = count
		case sf.Type.Kind() == reflect.Struct:
			f.kind, f.fields = section, fieldsOf(sf.Type, f.path)
		case sf.Type.Kind() == reflect.Slice && sf.Type.Elem().Kind() == reflect.Struct:
			f.kind, f.fields = list, fieldsOf(sf.Type.Elem(), f.path+"[]")
			if first := sf.Type.Elem().Field(0); first.Tag.Get("key") == nameKey {
				f.kind, f.fields = dictionary, fieldsOf(sf.Type.Elem(), f.path+".*")
				f.short, f.only = f.find(first.Tag.Get("short")), len(f.fields) == 1
			}
		case sf.Type == reflect.TypeFor[[]string]():
			f.kind = texts
		default:
			panic(fmt.Sprintf("config: field %s has type %s", sf.Name, sf.Type))
		}
		fields = append(fields, f)
	}
	return fields
}

func (f *field) isScalar() bool { return f.kind >= text }

// find returns the field with the key, or nil.
func (f *field) find(key string) *field {
	for i := range f.fields {
		if f.fields[i].key == key {
			return &f.fields[i]
		}
	}
	return nil
}

// keys returns the keys of a section in the order of the documentation.
func (f *field) keys() []string {
	keys := make([]string, len(f.fields))
	for i := range f.fields {
		keys[i] = f.fields[i].key
	}
	return keys
}

// walkScalars calls visit for every scalar outside of lists, with the value that it decodes into.
func walkScalars(f *field, v reflect.Value, visit func(*field, reflect.Value)) {
	for i := range f.fields {
		sub := &f.fields[i]
		switch {
		case sub.isScalar() || sub.single:
			visit(sub, v.Field(sub.index))
		case sub.kind == section:
			walkScalars(sub, v.Field(sub.index), visit)
		}
	}
}

func join(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}

func commas(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}
