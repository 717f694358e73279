package sim

import "testing"

// TestH46_MigrationsGoOnInAnotherCluster: rows and positions arrive there each by itself, and
// whatever is missing is loaded again.
func TestH46_MigrationsGoOnInAnotherCluster(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(5) {
		r := Simulate(seed, SimOptions{Failovers: true})
		for _, f := range r.Failures {
			t.Errorf("seed %d: %s", seed, f)
		}
		for name, n := range r.Injected {
			seen[name] += n
		}
	}
	for _, effect := range []string{"led to another cluster", "rows missing in another cluster", "failover by loads"} {
		if seen[effect] == 0 {
			t.Errorf("no run had %q", effect)
		}
	}
}
