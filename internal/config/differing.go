package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// Differing returns the paths of keys with other effective values than in another configuration, in
// order ("source.poll", "tables[0].to").
func (c *Config) Differing(from *Config) ([]string, error) {
	mine, err := c.Document()
	if err != nil {
		return nil, err
	}
	others, err := from.Document()
	if err != nil {
		return nil, err
	}
	return differing("", mine, others), nil
}

// differing compares two values of printed configurations, and returns the paths that differ.
func differing(path string, a, b any) (paths []string) {
	mine, sections := a.(map[string]any)
	others, both := b.(map[string]any)
	if sections && both {
		keys := slices.Sorted(maps.Keys(mine))
		for key := range others {
			if _, here := mine[key]; !here {
				keys = append(keys, key)
			}
		}
		slices.Sort(keys)
		for _, key := range keys {
			paths = append(paths, differing(join(path, key), mine[key], others[key])...)
		}
		return paths
	}
	first, lists := a.([]any)
	second, also := b.([]any)
	if lists && also && len(first) == len(second) {
		for i := range first {
			paths = append(paths, differing(fmt.Sprintf("%s[%d]", path, i), first[i], second[i])...)
		}
		return paths
	}
	if !reflect.DeepEqual(a, b) {
		paths = append(paths, path)
	}
	return paths
}
