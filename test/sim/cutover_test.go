package sim

import (
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// cutoverSeeds is how many runs with cutovers are played; SIM_SEEDS sets another number, SIM_FROM
// the first of them.
const cutoverSeeds = 32

// H59, H78, H92, H93, H94, H109, H110, H115: whatever drivers, workers and hooks do, nothing of
// ours lands after the fence, the application switches in its step alone and to a target that
// equals the source, it is never left frozen, whoever was forgotten is known in the end, and a
// cancelled cutover goes on in its generation.
func TestH59_H78_H92_H93_H94_H109_H110_H115_Cutovers(t *testing.T) {
	t.Parallel()
	from := fromEnvironment(t, "SIM_FROM", 0)
	seen := happened{}
	for n := range seedsOf(t, cutoverSeeds) {
		r := SimulateCutover(from+n, CutoverOptions{Quiet: n%8 == 1}) // few applications promise by themselves
		if len(r.Failures) > 0 {
			t.Errorf("seed %d: %s", from+n, strings.Join(r.Failures[:min(3, len(r.Failures))], "\n"))
		}
		seen.add(r.Injected)
	}
	seen.demand(t, "step done", "step cancelled", "cutover cancelled", "cutover postponed", "hook refused", "hook late", "hook hangs", "hook's answer lost", "hook acts and fails",
		"old token refused", "write after the freeze, at drain", "application writes the target too", "application promises to be quiet", "message delivered again", "item that cannot be stored", "row hurt",
		"a worker sleeps until the application has switched", "one group is cut over, the other is not", "scene: late child", "scene: unapplied", "scene: parked", "process killed", "process paused", "shard rolled", "shard split")
}

// H92, H108, H109, H110: at every step whoever drives is killed, paused, or sleeps until all is
// over, and the hooks of every step fail in every way.
func TestH92_H108_H109_H110_CutoverStruckAtEveryStep(t *testing.T) {
	t.Parallel()
	every := 1 // in a brief run every third of them
	if brief() {
		every = 3
	}
	for i, step := range CutoverSteps {
		for j, strike := range CutoverStrikes {
			hooked := step == checkpoint.CutoverFreeze || step == checkpoint.CutoverSwitching || step == checkpoint.CutoverCancelling
			if strike == "hook" && !hooked || (i+j)%every > 0 {
				continue
			}
			r := SimulateCutover(uint64(100*i+j), CutoverOptions{Step: step, Strike: strike, Calm: true})
			if len(r.Failures) > 0 {
				t.Errorf("%s at %s: %s", strike, step, strings.Join(r.Failures[:min(3, len(r.Failures))], "\n"))
			}
		}
	}
}
