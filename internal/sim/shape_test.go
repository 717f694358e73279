package sim

import (
	"strings"
	"testing"
)

// exampleSeeds is how many days each mapping is played.
const exampleSeeds = max(1, 4/fewer)

// H72, H73, H74, H83: every worked example and every mapping of the simulation, for days of its own, with a workload of items that move, meet,
// are removed and come back, and cannot be mapped, under copies, crashes and all other faults.
func TestH72_H73_H74_H83_EveryMappingIsPlayed(t *testing.T) {
	for _, name := range MappingNames() {
		t.Run(name, func(t *testing.T) {
			from := fromEnvironment(t, "SIM_FROM", 1000)
			for seed := range fromEnvironment(t, "SIM_SEEDS", exampleSeeds) {
				if r := Simulate(from+seed, SimOptions{Mapping: name}); len(r.Failures) > 0 {
					t.Fatalf("make sim SEED=%d MAPPING=%s: %s", from+seed, name, strings.Join(r.Failures[:min(3, len(r.Failures))], "\n"))
				}
			}
		})
	}
}
