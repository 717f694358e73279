package sim

import (
	"strings"
	"testing"
)

// changeSeeds is how many runs with mappings that are replaced are played; SIM_SEEDS sets another
// number, SIM_FROM the first of them.
const changeSeeds = 16

// H102, H60: whatever mapping follows another, and when, in the end every row equals its item under
// the last one, and nothing of a former one is left; or the table says that it cannot be told.
func TestH102_H60_MappingsAreReplaced(t *testing.T) {
	t.Parallel()
	from := fromEnvironment(t, "SIM_FROM", 0)
	seen := map[string]int{}
	for n := range fromEnvironment(t, "SIM_SEEDS", max(8, changeSeeds/fewer)) {
		r := SimulateMappingChanges(from+n, MappingOptions{})
		if len(r.Failures) > 0 {
			t.Errorf("seed %d: %s", from+n, strings.Join(r.Failures[:min(3, len(r.Failures))], "\n"))
		}
		for name, times := range r.Injected {
			seen[name] += times
		}
	}
	for _, name := range []string{"mapping changed", "mapping changed before a sweep", "mapping changed while sweeping", "former target table deleted", "in sync under the last mapping"} {
		if seen[name] == 0 {
			t.Errorf("nothing of the kind %q happened", name)
		}
	}
}

// A ledger that kept nothing of the former mapping never claims that nothing of it is left.
func TestH102_WhatIsNotKeptIsNotClaimed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		r := SimulateMappingChanges(seed, MappingOptions{Forgets: true})
		if len(r.Failures) > 0 || r.Injected["in sync under the last mapping"] > 0 {
			t.Errorf("seed %d: %v, %v", seed, r.Failures, r.Injected)
		}
	}
}
