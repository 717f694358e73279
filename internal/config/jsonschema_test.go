package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// TestJSONSchemaIsGenerated keeps the embedded schema equal to the tags and comments of Config. Run
// with -update to write it.
func TestJSONSchemaIsGenerated(t *testing.T) {
	g := schemaMaker{t: t, comments: commentsOf(t)}
	root := g.section(&schema, reflect.TypeFor[Config](), false)
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	root["title"] = "Configuration of replicator"
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(root); err != nil {
		t.Fatal(err)
	}
	golden(t, "replicator.schema.json", text.String())
}

// commentsOf returns the comments on fields in config.go, by type and field.
func commentsOf(t *testing.T) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if s, ok := spec.Type.(*ast.StructType); ok {
			for _, f := range s.Fields.List {
				for _, name := range f.Names {
					found[spec.Name.Name+"."+name.Name] = strings.Join(strings.Fields(f.Doc.Text()+" "+f.Comment.Text()), " ")
				}
			}
		}
		return true
	})
	return found
}

type object = map[string]any

// schemaMaker turns the decoder's schema into a JSON Schema.
type schemaMaker struct {
	t        *testing.T
	comments map[string]string
}

// section returns an object with these keys only. Absent, null and {} are the same to the decoder,
// unless something below is required, or the section is a named entry.
func (g *schemaMaker) section(f *field, of reflect.Type, named bool) object {
	properties, required := object{}, []string{}
	for i := range f.fields {
		sub := &f.fields[i]
		properties[sub.key] = g.described(sub, of.Field(sub.index), of)
		if needed(sub) {
			required = append(required, sub.key)
		}
	}
	s := object{"type": []string{"object", "null"}, "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	if len(required) > 0 || named {
		s["type"] = "object"
	}
	return s
}

// needed reports whether the key is required.
func needed(f *field) bool {
	if f.required != "" {
		return true
	}
	if f.kind == section {
		for i := range f.fields {
			if needed(&f.fields[i]) {
				return true
			}
		}
	}
	return false
}

func (g *schemaMaker) described(f *field, sf reflect.StructField, parent reflect.Type) object {
	s := g.value(f, sf.Type)
	text := g.comments[parent.Name()+"."+sf.Name]
	if text == "" {
		g.t.Errorf("%s: the field %s.%s has no comment, which editors would show", f.path, parent.Name(), sf.Name)
	}
	for _, more := range []struct{ says, value string }{{"Default: %s.", f.fallback}, {"When not given: %s.", f.unset}, {"Overridden by $%s.", f.env}} {
		if more.value != "" {
			text = strings.TrimSuffix(text, ".") + ". " + fmt.Sprintf(more.says, more.value)
		}
	}
	s["description"] = text
	if f.fallback != "" {
		s["default"] = f.typed(f.fallback)
	}
	return s
}

// typed returns the value of a text as YAML reads it.
func (f *field) typed(s string) any {
	switch {
	case f.kind == truth:
		return s == "true"
	case f.kind == count:
		return mustInt(s)
	}
	return s
}

func (g *schemaMaker) value(f *field, of reflect.Type) object {
	switch f.kind {
	case section:
		return g.section(f, of, false)
	case list:
		s := object{"type": []string{"array", "null"}, "items": g.section(f, of.Elem(), false)}
		if f.required != "" {
			s["type"], s["minItems"] = "array", 1
		}
		return s
	case dictionary:
		entry := g.section(f, of.Elem(), true)
		if f.short != nil {
			short := g.value(f.short, nil)
			if f.only {
				entry = short
			} else {
				entry = object{"anyOf": []any{short, entry}}
			}
		}
		return object{"type": []string{"object", "null"}, "additionalProperties": entry, "propertyNames": object{"minLength": 1}}
	case texts:
		element := *f
		element.kind = text
		s := object{"type": []string{"array", "null"}, "items": scalarSchema(&element)}
		if f.filled {
			s["type"], s["minItems"] = "array", 1
		}
		if f.single {
			s["type"] = "array"
			return object{"anyOf": []any{scalarSchema(&element), s}}
		}
		return s
	}
	return scalarSchema(f)
}

// notKnown are texts that pass for every key: a reference to a variable, and an empty text, which
// counts as absent.
func notKnown(f *field) object {
	if f.required != "" {
		return object{"type": "string", "pattern": `\$`}
	}
	return object{"type": "string", "pattern": `^$|\$`}
}

// textForms are the patterns that can be checked without the decoder, by the name of their check.
var textForms = map[string]*regexp.Regexp{
	"name": migrationName, "bigtable_table": bigtableTable, "resource": resourceID, "region": awsRegion, "role": roleARN, "external_id": externalID, "kms_key": kmsKey, "account": awsAccount, "principal": principalARN, "view": authorizedView,
	"capacity": capacity, "percent": percent, "park_to": parkTo, "images": images, "destination": destination,
}

// scalarSchema returns the schema of a key's value as YAML reads it. The decoder reads the text of
// any scalar, so a number may be a name, and a quoted text a number.
func scalarSchema(f *field) object {
	anyOf := func(forms ...any) object { return object{"anyOf": append(forms, notKnown(f))} }
	switch {
	case f.check == "version":
		return anyOf(object{"enum": []any{formatVersion, strconv.Itoa(formatVersion)}})
	case f.kind == truth && len(f.oneOf) > 0:
		var values []any
		for _, value := range f.oneOf {
			values = append(values, value == "true", value)
		}
		return anyOf(object{"enum": values})
	case len(f.oneOf) > 0:
		return anyOf(object{"enum": f.oneOf})
	case f.kind == truth:
		return anyOf(object{"type": "boolean"}, object{"enum": []string{"true", "false"}})
	case f.kind == count:
		number := object{"type": "integer"}
		if f.min != "" {
			number["minimum"], number["maximum"] = mustInt(f.min), mustInt(f.max)
		}
		return anyOf(number, object{"type": "string", "pattern": wholeNumber.String()})
	case f.kind == duration:
		return anyOf(object{"type": "string", "pattern": `^([0-9.]+(d|h|m|s|ms|us|µs|μs|ns))+$`})
	case textForms[f.check] != nil:
		// A pattern for numbers and booleans would need their text, which is unknown here: 0x1 may
		// be 1.
		return anyOf(object{"type": "string", "pattern": textForms[f.check].String()}, object{"type": []string{"number", "boolean"}})
	}
	s := object{"type": []string{"string", "number", "boolean"}}
	if f.required != "" {
		s["minLength"] = 1
	}
	return s
}
