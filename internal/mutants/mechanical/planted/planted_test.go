package planted

import (
	"errors"
	"slices"
	"testing"
	"time"
)

// TestAsleepAndAwake: each point is what the code says while another bug is awake, and what the bug says while its own is.
func TestAsleepAndAwake(t *testing.T) {
	now := time.Unix(7, 0)
	failed := errors.New("failed")
	for i, p := range []struct {
		does      func(n int) any
		is, would any
	}{
		{func(n int) any { return Not(n, true) }, true, false},
		{func(n int) any { return Is(n, true, false) }, false, true},
		{func(n int) any { return Less(n, 1, 1) }, false, true},
		{func(n int) any { return LessEqual(n, 1, 1) }, true, false},
		{func(n int) any { return Before(n, now, now) }, false, true},
		{func(n int) any { return After(n, now, now) }, false, true},
		{func(n int) any { return Kept(n) }, true, false},
		{func(n int) any { return Early(n) }, false, true},
		{func(n int) any { return Err(n, failed) }, failed, nil},
		{func(n int) any { return Plus(n, uint8(0), ^uint8(0)) }, uint8(0), uint8(255)},
		{func(n int) any { return Zero(n, "v") }, "v", ""},
		{func(n int) any { return Either(n, 1, 2) }, 1, 2},
		{func(n int) any { return Min(n, 2, 1, 3) }, 1, 3},
		{func(n int) any { return Max(n, 2, 1, 3) }, 3, 1},
		{func(n int) any { return len(Most(n, []int{1, 2})) }, 2, 1},
	} {
		awake = 5
		if got := p.does(4); got != p.is {
			t.Errorf("%d asleep: %v", i, got)
		}
		if got := p.does(5); got != p.would {
			t.Errorf("%d awake: %v", i, got)
		}
	}
	awake = 0
}

func TestNotes(t *testing.T) {
	Watch(3)
	defer func() { notes = nil }()
	Less(1, 1, 2)
	Less(2, 2, 2)
	ran, differ := Notes()
	if !slices.Equal(ran, []int{1, 2}) || !slices.Equal(differ, []int{2}) {
		t.Errorf("%v ran, and %v differ", ran, differ)
	}
	if ran, _ := Notes(); ran != nil {
		t.Errorf("%v ran again", ran)
	}
}
