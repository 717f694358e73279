package engine

import (
	"testing"
	"time"
)

// The defaults equal those of the manual. A pass takes at most a third of a lease; otherwise a
// lease could expire before it is checked.
func TestDefaultsOfTiming(t *testing.T) {
	for lease, want := range map[time.Duration]Timing{
		15 * time.Second: {Poll: time.Second, Soon: 250 * time.Millisecond, Pass: 2 * time.Second, List: time.Minute, Listed: 2 * time.Minute, Commit: time.Second, Grace: 20 * time.Second, Idle: 10 * time.Second, IdlePages: 10, Heed: 250 * time.Millisecond, Yield: time.Minute},
		3 * time.Second:  {Poll: time.Second, Soon: 250 * time.Millisecond, Pass: time.Second, List: time.Minute, Listed: 2 * time.Minute, Commit: time.Second, Grace: 20 * time.Second, Idle: 10 * time.Second, IdlePages: 10, Heed: 250 * time.Millisecond, Yield: 12 * time.Second},
	} {
		if got := (Timing{}).OrDefault(lease); got != want {
			t.Errorf("a lease of %s: %+v", lease, got)
		}
	}
	given := Timing{Poll: 9, Soon: 1, Pass: 2, List: 3, Listed: 9, Commit: 4, Grace: 5, Idle: 6, IdlePages: 7, Heed: 6, Yield: 8}
	if got := given.OrDefault(time.Second); got != given {
		t.Errorf("given %+v, it is %+v", given, got)
	}
}

// A shard is read often as long as changes may follow, then every Poll, and after minutes less
// often.
func TestPollsBackOff(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, c := range []struct {
		poll, soon  time.Duration
		empty       int
		quiet, want time.Duration
	}{
		{0, 0, 0, 0, 250 * ms},
		{0, 0, 40, ActiveFor - 1, 250 * ms},
		{15 * s, 0, 10, time.Hour, s}, // ten empty pages do not prove yet that there is no backlog
		{0, 0, 40, ActiveFor, s},
		{0, 0, 11, time.Minute, s},
		{0, 0, 90, 2 * time.Minute, 2 * s},
		{0, 0, 999, time.Hour, 3 * s},
		{200 * ms, 0, 40, ActiveFor, 200 * ms},
		{200 * ms, 250 * ms, 0, 0, 200 * ms}, // Poll is the larger one
		{200 * ms, 0, 999, time.Hour, 3 * s},
		{15 * s, 0, 40, ActiveFor, 15 * s},
		{15 * s, 0, 999, time.Hour, 15 * s},
		{15 * s, 2 * s, 0, 0, 2 * s},
		{15 * s, 2 * s, 0, time.Hour, 2 * s},
	} {
		timing := Timing{Poll: c.poll, Soon: c.soon}.OrDefault(15 * s)
		if got := timing.Between(c.empty, c.quiet); got != c.want {
			t.Errorf("poll %s, %d empty pages, %s without a change: %s", timing.Poll, c.empty, c.quiet, got)
		}
		if got := timing.Between(999, time.Hour); got != timing.LongIdle() {
			t.Errorf("poll %s: %s, not %s", timing.Poll, got, timing.LongIdle())
		}
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
	for _, c := range []struct {
		rows, workers int
		want          time.Duration
	}{{100, 3, 150 * time.Millisecond}, {1000, 60, 30 * time.Second}, {4000, 60, 2 * time.Minute}, {400_000, 60, 2 * time.Minute}} {
		if got := timing.LookBetween(c.rows, c.workers); got != c.want {
			t.Errorf("%d rows and %d workers: %s between two passes", c.rows, c.workers, got)
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
