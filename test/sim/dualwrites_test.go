package sim

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// dualSeeds is the number of dual-write runs. SIM_SEEDS sets another number, SIM_FROM the first
// seed.
const dualSeeds = 12

// dualKept lists seeds that failed once.
var dualKept = []uint64{
	72,    // a sweep skipped a removal that was never settled
	95,    // a load began at a floored second, before the settle time had passed
	20058, // of two parked records of an item, the one with the higher number counted as the later one
}

// H39, H40, H41, H42, H61, H79, H111: whatever an application of several servers writes to the
// target beside replicator, every row equals its item once the application has been quiet for the
// settle time.
func TestH39_H40_H41_H42_H79_H111_DualWritesConverge(t *testing.T) {
	t.Parallel()
	from := fromEnvironment(t, "SIM_FROM", 0)
	seen := happened{}
	seeds := slices.Clone(partOf(dualKept))
	for n := range seedsOf(t, dualSeeds) {
		seeds = append(seeds, from+n)
	}
	for _, seed := range seeds {
		r := SimulateDualWrites(seed, DualOptions{})
		if len(r.Failures) > 0 {
			t.Errorf("seed %d: %s", seed, strings.Join(r.Failures[:min(3, len(r.Failures))], "\n"))
		}
		seen.add(r.Injected)
	}
	seen.demand(t, "phantom write", "condition failed", "row deleted by the application", "application gone between its two writes", "process killed", "shard rolled", "stream trimmed unread")
}

// H39, H40: the same if the workers publish and other processes apply. A message is acknowledged
// when its second application is durable.
func TestH39_H40_DualWritesConvergeBehindATopic(t *testing.T) {
	t.Parallel()
	seen := happened{}
	for seed := range seedsOf(t, dualSeeds) {
		r := SimulateDualWrites(fromEnvironment(t, "SIM_FROM", 0)+seed, DualOptions{Relayed: true})
		if len(r.Failures) > 0 {
			t.Errorf("seed %d: %s", seed, strings.Join(r.Failures[:min(3, len(r.Failures))], "\n"))
		}
		seen.add(r.Injected)
	}
	seen.demand(t, "applier killed", "applier stopped", "applier paused", "phantom write")
}

// Without a second assertion, or with one before the application's deadline, some rows stay
// different. So the runs above can fail.
func TestDualWritesNeedTheDelay(t *testing.T) {
	t.Parallel()
	for _, o := range partOf([]DualOptions{{Exact: true}, {Settle: time.Second}, {Exact: true, Relayed: true}}) {
		failed := false
		for seed := uint64(0); seed < 6 && !failed; seed++ {
			failed = SimulateDualWrites(seed, o).Checker() == "I1"
		}
		if !failed {
			t.Errorf("%+v: no run differs", o)
		}
	}
}
