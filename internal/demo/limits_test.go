package demo

import (
	"testing"
	"time"
)

// A worker runs longer than every possible demo, and a copy has enough time for its items.
func TestLimitsFollowTheOptions(t *testing.T) {
	for _, c := range []struct {
		items    int
		duration time.Duration
	}{{10_000, 20 * time.Second}, {10_000, time.Hour}, {1_000_000, 24 * time.Hour}} {
		o := Options{Items: c.items, Duration: c.duration}
		// A thousand items per second.
		if slow := time.Duration(c.items) * time.Millisecond; o.copyLimit() < copyStart+slow {
			t.Errorf("%d items: the copy may take %s", c.items, o.copyLimit())
		}
		if parts := o.copyLimit() + c.duration + 2*drainLimit + stopTime; o.life() < parts+time.Minute {
			t.Errorf("%d items, %s: workers live for %s, the parts may take %s", c.items, c.duration, o.life(), parts)
		}
	}
}
