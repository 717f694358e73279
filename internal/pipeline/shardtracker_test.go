package pipeline

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// What counts as empty begins anew with each change, and with each lease: else --once would end in
// the midst of a backlog.
func TestBoardForgets(t *testing.T) {
	b := newShardTracker()
	timing, now := Timing{Poll: time.Second, Idle: 9 * time.Second, IdlePages: 10}, time.Duration(0)
	empty := func(from, to int) {
		for n := from; n <= to; n++ {
			now = time.Duration(n) * time.Second
			b.read("s", checkpoint.Progress{CaughtUp: true}, now)
		}
	}
	idle := func(want bool, when string) {
		t.Helper()
		if b.idle("s", timing, now) != want {
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
	now += 15 * time.Second
	idle(true, "while the next page may be on its way")
	now += time.Second
	idle(false, "when nothing was read for a while")
	b.forget("s")
	idle(false, "under a new lease")
	b.read("s", checkpoint.Progress{CaughtUp: true}, 100*time.Second)
	b.read("s", checkpoint.Progress{}, 101*time.Second)
	for n := range 10 { // ten pages a moment after each other, as they come when a service answers fast
		now = 110*time.Second + time.Duration(n)*time.Millisecond
		b.read("s", checkpoint.Progress{CaughtUp: true}, now)
	}
	idle(false, "when as many pages were empty, but not for as long")
}

// The lag is that of the shard that is furthest behind, whichever is looked at last.
func TestLagIsTheWorst(t *testing.T) {
	b, start := newShardTracker(), time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for n := range 20 {
		b.read(fmt.Sprint(n), checkpoint.Progress{EventTime: start.Add(time.Duration(n) * time.Minute)}, 0)
	}
	b.read("quiet", checkpoint.Progress{CaughtUp: true, EventTime: start.Add(-time.Hour)}, 0)
	for range 5 {
		if lag, known := b.lag(start.Add(time.Hour), 0); !known || lag != time.Hour {
			t.Fatalf("the lag is %s", lag)
		}
	}
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

// A table that can be followed again counts: --once waits for it, and the ledger says so.
func TestReadmittedTableCounts(t *testing.T) {
	ctx := context.Background()
	ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "readmitted", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	k := newRig(ledger, Table{Joined: true})
	if err := suspend(ctx, ledger, k.Events, "Orders", "why"); err != nil {
		t.Fatal(err)
	}
	k.table().tracker.setSuspended(true)
	if err := reconcilerOf(k).readmit(ctx); err != nil || k.table().tracker.isSuspended() {
		t.Errorf("the tracker says that it is suspended: %v, %v", k.table().tracker.isSuspended(), err)
	}
	if state, _, err := ledger.Table(ctx, "Orders"); err != nil || state.Suspended.Reason != "" {
		t.Errorf("the ledger says that it is suspended: %+v, %v", state.Suspended, err)
	}
}

// H18: a shard that another worker reads counts as empty when the ledger has shown it so for as
// long as its reader's own clock says, and does so still.
func TestH18_ReadElsewhere(t *testing.T) {
	timing, renew := Timing{Poll: time.Second, Pass: time.Second, Idle: 10 * time.Second}, 5*time.Second
	start := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) // on a clock that has nothing to do with ours
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
			if got := b.idleElsewhere(l.row, timing, renew, time.Duration(l.at)*time.Second); got != l.idle {
				t.Errorf("%s: after %d s idle %v", name, l.at, got)
			}
		}
	}
}

// A shard counts from when it is held on: while its first page cannot be written, a restart must
// not make it look as if it had caught up.
func TestLagOfAShardWhoseFirstPageIsNotWritten(t *testing.T) {
	begin := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC) // of the world of play
	for name, c := range map[string]struct {
		as  func(s *checkpoint.Shard)
		lag time.Duration // at the beginning; negative: none is told
	}{
		"behind": {func(s *checkpoint.Shard) { s.EventTime, s.ReadAt = begin.Add(-time.Hour), begin.Add(-time.Minute) }, time.Hour},
		"found empty": {func(s *checkpoint.Shard) {
			s.CaughtUp, s.EventTime, s.ReadAt = true, begin.Add(-5*time.Hour), begin.Add(-2*time.Hour)
		}, 2 * time.Hour},
		"had nothing so far":   {func(s *checkpoint.Shard) { s.ReadAt = begin.Add(-3 * time.Hour) }, 3 * time.Hour},
		"a child":              {func(s *checkpoint.Shard) { s.CoveredTo = begin.Add(-4*time.Hour - checkpoint.Slack) }, 4 * time.Hour},
		"a root":               {func(*checkpoint.Shard) {}, -1},
		"a clock that is late": {func(s *checkpoint.Shard) { s.EventTime, s.ReadAt = begin.Add(time.Hour), begin.Add(time.Hour) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			told, least := 0, time.Duration(0)
			o := crowd(t, newBacklog(5), targets{missing: "orders"}, "Orders")
			o.Events.Lag = func(_ string, lag, _ time.Duration) {
				if told++; told == 1 || lag < least {
					least = lag
				}
			}
			play(t, &checkpointtest.Memory{}, time.Minute, o, func(ctx context.Context, l *checkpoint.Ledger) error {
				if err := behind(0, "Orders")(ctx, l); err != nil {
					return err
				}
				s := checkpoint.Shard{Source: "Orders", Label: "L", StreamARN: "arn/Orders", ID: "s", State: checkpoint.Reading, Hop: cdc.RootHop, Generation: 7}
				c.as(&s)
				return l.CreateShard(ctx, s)
			})
			if c.lag < 0 && told > 0 || c.lag >= 0 && (told < 10 || least < c.lag || least > c.lag+10*time.Second) {
				t.Errorf("told %d times, at the least %s; want %s", told, least, c.lag)
			}
		})
	}
}
