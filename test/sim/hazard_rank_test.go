package sim

import (
	"strings"
	"testing"
)

// H87, H41: the application and the workers rank writes by a number in the item. Items are removed
// without one, edited without a raise, and recreated at 1. At the end every row equals its item. If
// a load finds an item whose number is below its row's, it parks the item until the next write.
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
	seen.demand(t, "phantom write", "condition failed", "edit without a raise", "removal without a number", "number began anew", "number ahead of the clock", "new item raised",
		"answer of the application's write lost", "application's write lost", "application gone between its two writes", "process killed", "shard rolled")
}
