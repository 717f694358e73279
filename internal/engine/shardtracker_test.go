package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// The count of empty pages restarts with each change and with each lease; otherwise --once would
// end in the middle of a backlog.
func TestBoardForgets(t *testing.T) {
	b := newShardTracker()
	timing, now := Timing{Poll: time.Second, Idle: 9 * time.Second, IdlePages: 10}, time.Duration(0)
	empty := func(from, to int) {
		for n := from; n <= to; n++ {
			now = time.Duration(n) * time.Second
			b.Read("s", checkpoint.Progress{CaughtUp: true}, now)
		}
	}
	idle := func(want bool, when string) {
		t.Helper()
		if b.Idle("s", timing, now) != want {
			t.Errorf("idle %v %s", !want, when)
		}
	}
	empty(1, 9)
	idle(false, "after nine pages")
	empty(10, 10)
	idle(true, "after ten pages")
	b.Read("s", checkpoint.Progress{}, 11*time.Second)
	idle(false, "after a change")
	empty(12, 20)
	idle(false, "nine pages after a change")
	empty(21, 21)
	idle(true, "ten pages after a change")
	now += 15 * time.Second
	idle(true, "while the next page may be on its way")
	now += time.Second
	idle(false, "when nothing was read for a while")
	b.Forget("s")
	idle(false, "under a new lease")
	b.Read("s", checkpoint.Progress{CaughtUp: true}, 100*time.Second)
	b.Read("s", checkpoint.Progress{}, 101*time.Second)
	for n := range 10 { // ten pages within a moment, as a fast service returns them
		now = 110*time.Second + time.Duration(n)*time.Millisecond
		b.Read("s", checkpoint.Progress{CaughtUp: true}, now)
	}
	idle(false, "when as many pages were empty, but not for as long")
}

// The lag is that of the shard furthest behind, whichever is checked last.
func TestLagIsTheWorst(t *testing.T) {
	b, start := newShardTracker(), time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for n := range 20 {
		b.Read(fmt.Sprint(n), checkpoint.Progress{EventTime: start.Add(time.Duration(n) * time.Minute)}, 0)
	}
	b.Read("quiet", checkpoint.Progress{CaughtUp: true, EventTime: start.Add(-time.Hour)}, 0)
	for range 5 {
		if lag, known := b.lag(start.Add(time.Hour), 0); !known || lag != time.Hour {
			t.Fatalf("the lag is %s", lag)
		}
	}
}

// The floor of one table does not apply to another.
func TestFloorsAreOfOneTable(t *testing.T) {
	var f Floors
	f.Raise("A", 7)
	f.Raise("B", 3)
	f.Raise("A", 5)
	for source, want := range map[string]uint32{"A": 7, "B": 3, "C": 0} {
		if got := f.Floor(source); got != want {
			t.Errorf("the floor of %s is %d, want %d", source, got, want)
		}
	}
}

// H18: a shard that another worker reads counts as empty if the ledger still shows it empty, and
// has done so for the required time by its reader's clock.
func TestH18_ReadElsewhere(t *testing.T) {
	timing, renew := Timing{Poll: time.Second, Pass: time.Second, Idle: 10 * time.Second}, 5*time.Second
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) // on a clock unrelated to this one
	row := func(readAt int) checkpoint.Shard {
		return checkpoint.Shard{ID: "s", Owner: "b", Epoch: 1, CaughtUp: true, Position: cdc.SequenceOf(7), FirstRead: start.Add(-time.Hour), ReadAt: start.Add(time.Duration(readAt) * time.Second)}
	}
	with := func(readAt int, change func(*checkpoint.Shard)) checkpoint.Shard {
		s := row(readAt)
		change(&s)
		return s
	}
	type look struct {
		at   int
		row  checkpoint.Shard
		idle bool
	}
	for name, looks := range map[string][]look{
		"it is read on":            {{0, row(0), false}, {5, row(5), false}, {9, row(9), false}, {10, row(10), true}, {11, row(10), true}},
		"its clock is slow":        {{0, row(0), false}, {60, row(5), false}, {120, row(10), true}},
		"nothing is told any more": {{0, row(0), false}, {10, row(10), true}, {22, row(10), true}, {23, row(10), false}, {24, row(24), true}},
		"a change comes": {{0, row(0), false}, {10, with(10, func(s *checkpoint.Shard) { s.Position = cdc.SequenceOf(8) }), false},
			{19, with(19, func(s *checkpoint.Shard) { s.Position = cdc.SequenceOf(8) }), false}, {20, with(20, func(s *checkpoint.Shard) { s.Position = cdc.SequenceOf(8) }), true}},
		"it is behind":     {{0, row(0), false}, {10, with(10, func(s *checkpoint.Shard) { s.CaughtUp = false }), false}, {11, row(11), false}, {21, row(21), true}},
		"another takes it": {{0, row(0), false}, {10, with(10, func(s *checkpoint.Shard) { s.Epoch++ }), false}},
		"nobody has it":    {{0, row(0), false}, {10, with(10, func(s *checkpoint.Shard) { s.Owner = "" }), false}},
		"it was reopened": {{0, with(-90000, func(s *checkpoint.Shard) { s.FirstRead = time.Time{} }), false}, {1, row(1), false}, {5, row(5), false},
			{11, row(11), true}},
		"its reader's clock is back": {{0, row(100), false}, {10, row(20), false}, {15, row(25), false}, {20, row(30), true}},
	} {
		b := newShardTracker()
		for _, l := range looks {
			if got := b.IdleElsewhere(l.row, timing, renew, time.Duration(l.at)*time.Second); got != l.idle {
				t.Errorf("%s: after %d s idle %v", name, l.at, got)
			}
		}
	}
}

// A released shard is not idle, whatever its last pages were, because no worker reads it.
func TestWhatWasGivenUpIsNotIdle(t *testing.T) {
	b := newShardTracker()
	timing := Timing{Poll: time.Second, Idle: 9 * time.Second, IdlePages: 10}
	for n := range 10 {
		b.Read("s", checkpoint.Progress{CaughtUp: true}, time.Duration(n)*time.Second)
	}
	if !b.Idle("s", timing, 9*time.Second) {
		t.Error("ten empty pages are not idle")
	}
	if b.Leave("s"); b.Idle("s", timing, 9*time.Second) {
		t.Error("idle although it was given up")
	}
}

// Each event is counted under its own name.
func TestATallyIsOfEachEvent(t *testing.T) {
	var changes []cdc.Change
	for _, event := range []cdc.Event{cdc.Remove, cdc.Modify, cdc.Insert, cdc.Remove, cdc.Modify, cdc.Remove} {
		changes = append(changes, cdc.Change{Event: event})
	}
	if got, want := Count(changes), (Tally{Inserts: 1, Modifies: 2, Removes: 3}); got != want || got.Changes() != 6 {
		t.Errorf("%+v, want %+v", got, want)
	}
}
