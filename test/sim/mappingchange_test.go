package sim

import (
	"strings"
	"testing"
)

// changeSeeds is the number of runs with replaced mappings. SIM_SEEDS sets another number, SIM_FROM
// the first seed.
const changeSeeds = 16

// H102, H60: whichever mapping replaces another, and whenever, in the end every row equals its item
// under the last one. Nothing of a former mapping is left, or the table's state says that this is
// unknown.
func TestH102_H60_MappingsAreReplaced(t *testing.T) {
	t.Parallel()
	from := fromEnvironment(t, "SIM_FROM", 0)
	seen := happened{}
	for n := range seedsOf(t, changeSeeds) {
		r := SimulateMappingChanges(from+n, MappingOptions{})
		if len(r.Failures) > 0 {
			t.Errorf("seed %d: %s", from+n, strings.Join(r.Failures[:min(3, len(r.Failures))], "\n"))
		}
		seen.add(r.Injected)
	}
	seen.demand(t, "mapping changed", "mapping changed before a sweep", "mapping changed while sweeping", "former target table deleted", "in sync under the last mapping")
}

// A ledger that stores nothing of the former mapping never claims that nothing of it is left.
func TestH102_WhatIsNotKeptIsNotClaimed(t *testing.T) {
	t.Parallel()
	for seed := range seedsOf(t, 4) {
		r := SimulateMappingChanges(seed, MappingOptions{Forgets: true})
		if len(r.Failures) > 0 || r.Injected["in sync under the last mapping"] > 0 {
			t.Errorf("seed %d: %v, %v", seed, r.Failures, r.Injected)
		}
	}
}
