package config

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Print writes the effective configuration as YAML. Load returns the same configuration for this
// YAML. Print writes every key with its value, including defaults, in the order of the
// documentation. Only empty keys of mappings are left out. The position of a value follows the
// value, unless the value is a default. Variables appear expanded.
// Of an address that may contain a secret it shows the variable, or only the host.
func (c *Config) Print(w io.Writer) error {
	encoder := yaml.NewEncoder(w)
	encoder.SetIndent(2)
	if err := encoder.Encode(c.node(&schema, reflect.ValueOf(c.asWritten()).Elem(), "")); err != nil {
		return err
	}
	return encoder.Close()
}

// Document returns the effective configuration for programs. Values, including durations, have the
// form in which Print writes them.
func (c *Config) Document() (map[string]any, error) {
	var text bytes.Buffer
	if err := c.Print(&text); err != nil {
		return nil, err
	}
	var document map[string]any
	err := yaml.Unmarshal(text.Bytes(), &document)
	return document, err
}

// node builds the mapping of a section.
func (c *Config) node(f *field, v reflect.Value, path string) *yaml.Node {
	mapping := &yaml.Node{Kind: yaml.MappingNode}
	for i := range f.fields {
		sub := &f.fields[i]
		value, subPath := v.Field(sub.index), join(path, sub.key)
		if sub.omit && value.IsZero() {
			continue
		}
		var n *yaml.Node
		switch sub.kind {
		case section:
			n = c.node(sub, value, subPath)
		case list:
			n = &yaml.Node{Kind: yaml.SequenceNode}
			for i := range value.Len() {
				n.Content = append(n.Content, c.node(sub, value.Index(i), fmt.Sprintf("%s[%d]", subPath, i)))
			}
		case dictionary:
			n = c.dictionaryNode(sub, value, subPath)
		case texts:
			n = c.textsNode(sub, value, subPath)
		default:
			n = c.scalarNode(sub, value, subPath)
		}
		mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: sub.key}, n)
	}
	return mapping
}

func escapeDollars(value string) string { return strings.ReplaceAll(value, "$", "$$") }

func (c *Config) scalarNode(f *field, v reflect.Value, path string) *yaml.Node {
	value := f.format(v)
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: escapeDollars(value)}
	if f.secret {
		n.Value = c.withoutSecret(value, path)
	}
	if f.kind == text {
		n.Tag = "!!str" // quoted if it would parse as another type
	}
	switch from, given := c.where[path]; {
	case given:
		n.LineComment = from.String()
	case value == "" && f.unset != "":
		n.LineComment = f.unset
	}
	return n
}
