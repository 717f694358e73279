package config

import (
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"

	"github.com/dynamodb-bigtable/replicator/internal/diag"
)

// dictionary decodes a YAML mapping with keys that the user chooses, and keeps their order. An
// entry is either a section, or a single value for one of the section's keys.
func (d *decoder) dictionary(f *field, n *yaml.Node, v reflect.Value, path string) {
	if n.Kind == yaml.AliasNode || n.Tag == "!!null" && n.Value == "" {
		d.bad[path] = d.bad[path] || n.Kind == yaml.AliasNode
		return
	}
	if n.Kind != yaml.MappingNode {
		d.bad[path] = true
		d.report(diag.Error{Code: diag.WrongType, Pos: d.at(n), What: fmt.Sprintf("%s is %s", path, kindOf(n)),
			Cause: path + " has names and values", Fix: sectionFix(f)})
		return
	}
	entries := reflect.MakeSlice(v.Type(), 0, len(n.Content)/2)
	first := map[string]*yaml.Node{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Kind == yaml.AliasNode || key.Tag == "!!merge" && key.Style == 0 {
			continue // reported by refuseFeatures
		}
		if key.Kind != yaml.ScalarNode || key.Value == "" {
			d.report(diag.Error{Code: diag.YAMLRefused, Pos: d.at(key), What: "a name in " + path + " is not plain text",
				Cause: "a name is expected here, but this is a list, a mapping or empty", Fix: "write a name"})
			continue
		}
		if earlier := first[key.Value]; earlier != nil {
			d.report(diag.Error{Code: diag.DuplicateKey, Pos: d.at(key), What: fmt.Sprintf("%s given twice in %s", diag.Shortened(key.Value), path),
				Cause: "first given at " + d.at(earlier).String()})
			continue
		}
		first[key.Value] = key
		entry := reflect.New(v.Type().Elem()).Elem()
		entry.Field(0).SetString(key.Value)
		entryPath := join(path, key.Value)
		d.where[entryPath] = d.at(key)
		if f.short != nil && f.short.kind == texts {
			d.texts(f.short, value, entry.Field(f.short.index), entryPath)
		} else if f.short != nil && (f.only || value.Kind != yaml.MappingNode) {
			d.scalar(f.short, value, entry.Field(f.short.index), join(entryPath, f.short.key))
		} else {
			d.section(f, value, entry, entryPath)
		}
		entries = reflect.Append(entries, entry)
	}
	if entries.Len() > 0 {
		v.Set(entries)
	}
}

// texts decodes a list of strings.
func (d *decoder) texts(f *field, n *yaml.Node, v reflect.Value, path string) {
	nothing := n.Tag == "!!null" && n.Value == ""
	if f.single && n.Kind == yaml.ScalarNode {
		d.element(f, n, v, path)
		return
	}
	if n.Kind == yaml.AliasNode || nothing && !f.filled {
		d.bad[path] = d.bad[path] || n.Kind == yaml.AliasNode
		return
	}
	if n.Kind != yaml.SequenceNode && !nothing {
		d.bad[path] = true
		d.report(diag.Error{Code: diag.WrongType, Pos: d.at(n), What: fmt.Sprintf("%s is %s", path, kindOf(n)),
			Cause: path + " must be a list", Fix: "write " + f.key + ": [a, b]"})
		return
	}
	for i, entry := range n.Content {
		d.element(f, entry, v, fmt.Sprintf("%s[%d]", path, i))
	}
	if f.filled && v.Len() == 0 {
		d.fault(&fault{diag.InvalidValue, "the list is empty", "an empty list is ambiguous",
			"remove the key, or write at least one entry"}, d.at(n), path, "")
	}
}

// element decodes one string of a list. An empty one counts as not given.
func (d *decoder) element(f *field, n *yaml.Node, v reflect.Value, path string) {
	element := *f
	element.kind = text
	value := reflect.New(reflect.TypeFor[string]()).Elem()
	d.scalar(&element, n, value, path)
	if value.Len() > 0 {
		v.Set(reflect.Append(v, value))
	}
}

// replaceTexts replaces a list of strings by the values of flags, one for each element.
func (d *decoder) replaceTexts(f *field, flags []Flag, v reflect.Value) {
	element := *f
	element.kind = text
	v.SetZero()
	for _, flag := range flags {
		value := reflect.New(reflect.TypeFor[string]()).Elem()
		d.text(&element, flag.Value, value, fmt.Sprintf("%s[%d]", f.path, v.Len()), diag.Position{File: flag.Name})
		v.Set(reflect.Append(v, value))
	}
}

// requiredOfDictionary checks that each entry of a dictionary has its required keys.
func (d *decoder) requiredOfDictionary(f *field, v reflect.Value, path string) {
	for i := range v.Len() {
		entry := v.Index(i)
		if entryPath := join(path, entry.Field(0).String()); !d.bad[entryPath] {
			d.required(f, entry, entryPath)
		}
	}
}

// dictionaryNode returns the YAML node with which a dictionary is printed.
func (c *Config) dictionaryNode(f *field, v reflect.Value, path string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for i := range v.Len() {
		entry := v.Index(i)
		name := entry.Field(0).String()
		entryPath := join(path, name)
		value := c.node(f, entry, entryPath)
		if f.short != nil && len(value.Content) == 2 && value.Content[0].Value == f.short.key {
			value = value.Content[1]
		}
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, value)
	}
	return n
}

// textsNode returns the YAML node with which a list of strings is printed.
func (c *Config) textsNode(f *field, v reflect.Value, path string) *yaml.Node {
	if f.single && v.Len() < 2 {
		element, value := *f, reflect.New(reflect.TypeFor[string]()).Elem()
		if element.kind = text; v.Len() > 0 {
			value = v.Index(0)
		}
		return c.scalarNode(&element, value, path)
	}
	n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for i := range v.Len() {
		n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: escapeDollars(v.Index(i).String())})
	}
	return n
}
