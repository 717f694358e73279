package worker

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/dynamodb-bigtable/replicator/internal/config"
)

// differing returns the paths of the keys whose effective values differ between two configurations,
// in order ("source.poll", "tables[0].to").
func differing(a, b *config.Config) ([]string, error) {
	first, err := a.Document()
	if err != nil {
		return nil, err
	}
	second, err := b.Document()
	if err != nil {
		return nil, err
	}
	return differingBelow("", first, second), nil
}

// differingBelow compares two values of printed configurations. A list whose length differs is one
// path.
func differingBelow(path string, a, b any) (paths []string) {
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
			at := key
			if path != "" {
				at = path + "." + key
			}
			paths = append(paths, differingBelow(at, mine[key], others[key])...)
		}
		return paths
	}
	first, lists := a.([]any)
	second, also := b.([]any)
	if lists && also && len(first) == len(second) {
		for i := range first {
			paths = append(paths, differingBelow(fmt.Sprintf("%s[%d]", path, i), first[i], second[i])...)
		}
		return paths
	}
	if !reflect.DeepEqual(a, b) {
		paths = append(paths, path)
	}
	return paths
}
