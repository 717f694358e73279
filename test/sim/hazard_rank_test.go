package sim

import (
	"strings"
	"testing"
)

// H87, H41: writes of both are ranked by a number of the item's. Items are removed without one,
// edited without a raise and created anew at 1: at the end every row equals its item. What a load
// finds below the number of an image is parked, and heals with the next write.
func TestH87_H41_WritesOfBothAreRanked(t *testing.T) {
	t.Parallel()
	from := fromEnvironment(t, "SIM_FROM", 0)
	seen := happened{}
	for n := range seedsOf(t, 12) {
		r := SimulateDualWrites(from+n, DualOptions{Ranked: true})
		if len(r.Failures) > 0 {
			t.Errorf("seed %d: %s", from+n, strings.Join(r.Failures[:min(3, len(r.Failures))], "\n"))
		}
		seen.add(r.Injected)
	}
	seen.demand(t, "phantom write", "condition failed", "edit without a raise", "removal without a number", "number began anew",
		"answer of the application's write lost", "application's write lost", "application gone between its two writes", "process killed", "shard rolled")
}
