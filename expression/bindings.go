package expression

import (
	"maps"
	"slices"
	"strings"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// Bindings are a request's ExpressionAttributeNames and ExpressionAttributeValues. All expressions
// of a request share one Bindings, because at least one expression must use each placeholder.
type Bindings struct {
	names      map[string]string
	values     map[string]attribute.Value
	usedNames  map[string]bool
	usedValues map[string]bool
}

// NewBindings validates the maps of a request. A nil map means that the request has no such map.
func NewBindings(names map[string]string, values map[string]attribute.Value) (*Bindings, error) {
	if names != nil && len(names) == 0 {
		return nil, refuse("ExpressionAttributeNames must not be empty")
	}
	if values != nil && len(values) == 0 {
		return nil, refuse("ExpressionAttributeValues must not be empty")
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !placeholder(name, '#') {
			return nil, refuse("ExpressionAttributeNames contains invalid key: Syntax error; key: %q", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !placeholder(name, ':') {
			return nil, refuse("ExpressionAttributeValues contains invalid key: Syntax error; key: %q", name)
		}
	}
	return &Bindings{names: names, values: values, usedNames: map[string]bool{}, usedValues: map[string]bool{}}, nil
}

func placeholder(text string, mark byte) bool {
	return len(text) > 1 && text[0] == mark &&
		span(text, 1, func(c byte) bool { return letter(c) || digit(c) }) == len(text)
}

// CheckUsed returns an error if a placeholder is used by no parsed expression. Call it after the
// last expression is parsed.
func (b *Bindings) CheckUsed() error {
	if unused := missing(b.names, b.usedNames); unused != "" {
		return refuse("Value provided in ExpressionAttributeNames unused in expressions: keys: {%s}", unused)
	}
	if unused := missing(b.values, b.usedValues); unused != "" {
		return refuse("Value provided in ExpressionAttributeValues unused in expressions: keys: {%s}", unused)
	}
	return nil
}

// Empty reports whether the request had no placeholders.
func (b *Bindings) Empty() bool { return b.names == nil && b.values == nil }

func missing[V any](given map[string]V, used map[string]bool) string {
	var unused []string
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !used[name] {
			unused = append(unused, name)
		}
	}
	return strings.Join(unused, ", ")
}
