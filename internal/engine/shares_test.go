package engine

import (
	"testing"
	"time"
)

// A shard is taken over once the numbers have been uneven for a whole lease, and then one in each
// pass over all tables. A short imbalance evens out by itself, and all workers must see the result
// of one takeover before the next.
func TestSharesAreTakenOneByOne(t *testing.T) {
	const lease, pass = 15 * time.Second, 2 * time.Second
	var s Shares
	uneven, even := map[string]int{"a": 8, "me": 1}, map[string]int{"a": 2, "me": 1}
	for i, step := range []struct {
		at   int // seconds
		held map[string]int
		want string
	}{
		{1, uneven, ""}, {15, uneven, ""}, {16, uneven, "a"}, {17, uneven, ""}, {18, uneven, "a"},
		{20, even, ""}, {30, uneven, ""}, {44, uneven, ""}, {45, uneven, "a"},
	} {
		now := time.Duration(step.at) * time.Second
		s.See("Orders", step.held)
		got := s.Busiest("Orders", "me", now, lease, pass)
		if got != step.want {
			t.Errorf("step %d, after %d s: from %q, want from %q", i, step.at, got, step.want)
		}
		if got != "" {
			s.Tried(now)
		}
	}
}
