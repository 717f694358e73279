package sim

import "testing"

// TestNeighboursKeepTheirRows: two pipelines on one target table are loaded and swept repeatedly.
// Neither removes a row of the other. If the target is not declared shared, one is refused (T6).
func TestNeighboursKeepTheirRows(t *testing.T) {
	total := happened{}
	for seed := range seedsOf(t, 12) {
		r := Simulate(740_000+seed, SimOptions{Neighbours: true})
		if len(r.Failures) > 0 {
			t.Errorf("seed %d: %s", r.Seed, r.Failures[0])
		}
		total.add(r.Injected)
	}
	total.demand(t, "row removed beside another pipeline", "pipeline refused beside another", "process killed")
}
