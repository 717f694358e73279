package sim

import "testing"

// H58, I11: whole systems whose workers publish what they apply, to a topic that fails, answers
// late or not at all, and is unavailable for hours.
func TestH58_EverythingIsPublished(t *testing.T) {
	t.Parallel()
	seen := happened{}
	from := fromEnvironment(t, "SIM_FROM", 580_000)
	for seed := range seedsOf(t, 8) {
		o := SimOptions{Relay: true}
		r := Simulate(from+seed, o)
		if len(r.Failures) > 0 {
			t.Fatal(Explain(from+seed, o))
		}
		seen.add(r.Injected)
	}
	seen.demand(t, "message published again", "message behind a blocked key", "publish failed")
}

// H114, H100: whole systems in which appliers write the workers' messages. Appliers are killed,
// stopped, and paused for hours with messages in flight, and some have an old mapping.
func TestH114_AppliersWriteWhatIsPublished(t *testing.T) {
	t.Parallel()
	seen := happened{}
	from := fromEnvironment(t, "SIM_FROM", 1_140_000)
	for seed := range seedsOf(t, 8) {
		o := SimOptions{Relay: true, Appliers: 1 + int(seed*seed%7)}
		r := Simulate(from+seed, o)
		if len(r.Failures) > 0 {
			t.Fatal(Explain(from+seed, o))
		}
		seen.add(r.Injected)
	}
	seen.demand(t, "message delivered again", "applier stands still", "applier killed")
}
