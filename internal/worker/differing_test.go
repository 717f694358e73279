package worker

import (
	"slices"
	"testing"
)

func TestPathsThatDiffer(t *testing.T) {
	tree := func(poll, to any) map[string]any {
		return map[string]any{"source": map[string]any{"poll": poll}, "tables": []any{map[string]any{"to": to}}}
	}
	for name, c := range map[string]struct {
		a, b any
		want []string
	}{
		"equal":            {tree(1, "a"), tree(1, "a"), nil},
		"values":           {tree(1, "a"), tree(2, "b"), []string{"source.poll", "tables[0].to"}},
		"a key less":       {tree(1, "a"), map[string]any{"source": map[string]any{"poll": 1}}, []string{"tables"}},
		"a key more":       {map[string]any{"b": 1}, map[string]any{"a": 0, "b": 2}, []string{"a", "b"}},
		"lists of lengths": {map[string]any{"l": []any{1}}, map[string]any{"l": []any{1, 2}}, []string{"l"}},
		"other types":      {map[string]any{"l": []any{1}}, map[string]any{"l": 1}, []string{"l"}},
	} {
		if got := differingBelow("", c.a, c.b); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
