package pipeline

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// What counts as empty begins anew with each change, and with each lease: else --once would end in the midst of a backlog.
func TestBoardForgets(t *testing.T) {
	b := newBoard()
	empty := func(from, to int) {
		for n := from; n <= to; n++ {
			b.read("s", checkpoint.Progress{CaughtUp: true}, time.Duration(n)*time.Second)
		}
	}
	idle := func(want bool, when string) {
		t.Helper()
		if b.idle("s", 10, 9*time.Second) != want {
			t.Errorf("idle %v %s", !want, when)
		}
	}
	empty(1, 9)
	idle(false, "after nine pages")
	empty(10, 10)
	idle(true, "after ten pages")
	b.read("s", checkpoint.Progress{}, 11*time.Second)
	idle(false, "after a change")
	empty(12, 20)
	idle(false, "nine pages after a change")
	empty(21, 21)
	idle(true, "ten pages after a change")
	b.forget("s")
	idle(false, "under a new lease")
}

// What is refused for one table's generation is no matter of another's.
func TestFloorsAreOfOneTable(t *testing.T) {
	var f Floors
	f.raise("A", 7)
	f.raise("B", 3)
	f.raise("A", 5)
	for source, want := range map[string]uint32{"A": 7, "B": 3, "C": 0} {
		if got := f.Floor(source); got != want {
			t.Errorf("the floor of %s is %d, want %d", source, got, want)
		}
	}
}
