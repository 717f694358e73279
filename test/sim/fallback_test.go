package sim

import "testing"

// DynamoDB follows Bigtable through kills, sleeps, takeovers, late and repeated requests, lost
// answers, splits and merges. No write is lost, and none lands after the stop (F1 to F5).
func TestH143_WayBack(t *testing.T) {
	for seed := range uint64(8) {
		if r := simulateFallback(seed, false); len(r.Failures) > 0 {
			t.Errorf("seed %d: %v", seed, r.Failures)
		}
	}
}

// An application is moved back to DynamoDB and forward again, through kills of leaders and drivers,
// hooks that fail after they acted, and cancels in every step. No acknowledged write is lost, and no
// request of a leader lands after the switch.
func TestH143_Rollback(t *testing.T) {
	for seed := range uint64(6) {
		if r := simulateRollback(seed, false); len(r.Failures) > 0 {
			t.Errorf("seed %d: %v", seed, r.Failures)
		}
	}
}
