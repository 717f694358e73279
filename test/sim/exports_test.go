package sim

import "testing"

// H33, H36, H81, H90, H91, H104, H105: whole systems whose operators request exports of the table
// and load it from them: instead of the first copy, after gaps, and again, beside all other faults.
// An export's content is up to a minute before or after its time, and the bucket holds incomplete
// exports. In each system a load from an export ends.
func TestH33_H36_H81_H90_H91_H104_H105_ExportsAreLoaded(t *testing.T) {
	t.Parallel()
	seen := happened{}
	from := fromEnvironment(t, "SIM_FROM", 330_000)
	for seed := range seedsOf(t, 24) {
		o := SimOptions{Exports: true}
		r := Simulate(from+seed, o)
		if len(r.Failures) > 0 {
			t.Fatal(Explain(from+seed, o))
		}
		if r.Exported == 0 && !r.Moot {
			t.Errorf("seed %d: no load from an export ends", r.Seed)
		}
		seen.add(r.Injected)
	}
	seen.demand(t, "item exported as it was before or after", "export refused", "object of a bucket spoiled", "first copy from an export", "load of a full export and windows", "item inserted and removed in a window", "exports refused that do not belong together, or to the table")
}
