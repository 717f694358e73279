package sim

import "testing"

// TestH46_MigrationsGoOnInAnotherCluster: rows and positions arrive there independently, and all
// missing rows are loaded again.
func TestH46_MigrationsGoOnInAnotherCluster(t *testing.T) {
	seen := happened{}
	for seed := range seedsOf(t, 5) {
		r := Simulate(seed, SimOptions{Failovers: true})
		for _, f := range r.Failures {
			t.Errorf("seed %d: %s", seed, f)
		}
		seen.add(r.Injected)
	}
	seen.demand(t, "led to another cluster", "rows missing in another cluster", "failover by loads")
}
