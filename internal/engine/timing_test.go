package engine

import (
	"testing"
	"time"
)

// The defaults equal those of the manual. A pass takes at most a third of a lease; otherwise a
// lease could expire before it is checked.
func TestDefaultsOfTiming(t *testing.T) {
	for lease, want := range map[time.Duration]Timing{
		15 * time.Second: {Poll: time.Second, Soon: time.Second, Active: 250 * time.Millisecond, Pass: 2 * time.Second, List: time.Minute, Listed: 2 * time.Minute, Commit: time.Second, Grace: 20 * time.Second, Idle: 10 * time.Second, IdlePages: 10, Heed: 250 * time.Millisecond, Yield: time.Minute},
		3 * time.Second:  {Poll: time.Second, Soon: time.Second, Active: 250 * time.Millisecond, Pass: time.Second, List: time.Minute, Listed: 2 * time.Minute, Commit: time.Second, Grace: 20 * time.Second, Idle: 10 * time.Second, IdlePages: 10, Heed: 250 * time.Millisecond, Yield: 12 * time.Second},
	} {
		if got := (Timing{}).OrDefault(lease); got != want {
			t.Errorf("a lease of %s: %+v", lease, got)
		}
	}
	given := Timing{Poll: 9, Soon: 1, Active: 10, Pass: 2, List: 3, Listed: 9, Commit: 4, Grace: 5, Idle: 6, IdlePages: 7, Heed: 6, Yield: 8}
	if got := given.OrDefault(time.Second); got != given {
		t.Errorf("given %+v, it is %+v", given, got)
	}
}

// An idle shard is read less and less often, once empty pages prove that it has no changes.
func TestPollsBackOff(t *testing.T) {
	timing := Timing{Poll: 15 * time.Second, Soon: time.Second}.OrDefault(15 * time.Second)
	for empty, want := range map[int]time.Duration{0: 1, 1: 1, 10: 1, 11: 2, 12: 4, 13: 8, 14: 15, 1000: 15} {
		if got := timing.Wait(empty); got != want*time.Second {
			t.Errorf("after %d empty pages: %s", empty, got)
		}
	}
	if got := (Timing{}).OrDefault(time.Minute).Wait(1); got != time.Second {
		t.Error(got)
	}
	if got := (Timing{Poll: 200 * time.Millisecond, Soon: time.Second}).Wait(100); got != 200*time.Millisecond {
		t.Error(got)
	}
}

// The larger the fleet and its ledger, the less often each worker reads the ledger, but at least
// once per lease.
func TestALargeFleetLooksLessOften(t *testing.T) {
	timing, lease := Timing{}.OrDefault(15*time.Second), 15*time.Second
	for _, c := range []struct {
		rows, workers int
		want          time.Duration
	}{{4, 3, 2 * time.Second}, {1000, 1, 2 * time.Second}, {1000, 10, 5 * time.Second}, {10_000, 200, lease}} {
		if got := timing.LookAfter(c.rows, c.workers, lease); got != c.want {
			t.Errorf("%d rows and %d workers: %s", c.rows, c.workers, got)
		}
	}
	s := &Shares{}
	s.See("a", map[string]int{"w": 1, "x": 2})
	s.See("b", map[string]int{"x": 1, "y": 9})
	s.Looks("a", "z", 30)
	if rows, workers := s.Looks("b", "z", 12); rows != 42 || workers != 4 {
		t.Errorf("%d rows, %d workers", rows, workers)
	}
	s.Forget("b")
	if rows, workers := s.Looks("a", "w", 30); rows != 30 || workers != 2 {
		t.Errorf("%d rows, %d workers", rows, workers)
	}
}
