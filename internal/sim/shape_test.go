package sim

import (
	"strings"
	"testing"
)

// exampleSeeds is how many days each mapping is played, each under seeds of its own: no two have the same faults.
const exampleSeeds = max(1, 2/fewer)

// H72, H73, H74, H83: every worked example and every mapping of the simulation, for days of its own, with a workload of items that move, meet,
// are removed and come back, and cannot be mapped, under copies, crashes and all other faults. Under the race detector some of them.
func TestH72_H73_H74_H83_EveryMappingIsPlayed(t *testing.T) {
	t.Parallel()
	from, seeds := fromEnvironment(t, "SIM_FROM", 1000), fromEnvironment(t, "SIM_SEEDS", exampleSeeds)
	for i, name := range partOf(MappingNames()) {
		t.Run(name, func(t *testing.T) {
			for n := range seeds {
				seed := from + uint64(i)*seeds + n
				if r := Simulate(seed, SimOptions{Mapping: name}); len(r.Failures) > 0 {
					t.Fatalf("make sim SEED=%d MAPPING=%s: %s", seed, name, strings.Join(r.Failures[:min(3, len(r.Failures))], "\n"))
				}
			}
		})
	}
}
