package follow

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// settlesAt is when changes of these tests are read.
var settlesAt = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// settler is one of shard s that nothing works on.
func (s *scene) settler() *settler {
	s.Helper()
	s.prepares()
	s.shard("s", "")
	lease, err := s.Ledger.Take(s.ctx, s.row("s"), nil)
	s.must(err)
	f := s.parts.follower
	f.tracker.Read("s", checkpoint.Progress{}, task.Mono(s.ctx)) // the first loop has begun
	return &settler{follower: f, lease: lease, reading: true}
}

// upTo is the progress over the n-th change, after a first read.
func upTo(n int) checkpoint.Progress {
	return checkpoint.Progress{Position: cdc.Position{After: cdc.SequenceOf(uint64(n))}, FirstRead: settlesAt, Applied: uint64(n)}
}

// A page is due a delay after its first application, in its order, whether it is held or was
// dropped. A stretch of dropped pages is read again at once, so it is due with its latest: what the
// earlier bound allows, no write of the application's is under way then. It grows for a sixteenth
// of the delay, and the front, which may be at work, never does.
func TestH39_AStretchIsDueWithItsLatestPage(t *testing.T) {
	const late = 16 * time.Minute
	hold := func(room int64, at ...time.Duration) []appliedPage {
		s := &settler{follower: &follower{Common: &engine.Common{}, late: late, room: NewSettleRoom(room)}}
		for n, due := range at {
			s.hold(settledPage(n), n+1, upTo(n), upTo(n+1), due)
		}
		return s.queue
	}
	type want struct {
		from, to, changes int
		begun, due        time.Duration
	}
	m, second := time.Minute, time.Second
	for name, c := range map[string]struct {
		room int64
		at   []time.Duration
		want []want
	}{
		"held":             {1 << 20, []time.Duration{m, m, 2 * m}, []want{{0, 1, 1, m, m}, {1, 2, 2, m, m}, {2, 3, 3, 2 * m, 2 * m}}},
		"dropped":          {0, []time.Duration{m, m, m + 30*second, 2 * m, 2*m + second}, []want{{0, 1, 1, m, m}, {1, 4, 9, m, 2 * m}, {4, 5, 5, 2*m + second, 2*m + second}}},
		"one had its room": {3000, []time.Duration{m, m, m, m}, []want{{0, 1, 1, m, m}, {1, 4, 9, m, m}}},
	} {
		var got []want
		for _, p := range hold(c.room, c.at...) {
			got = append(got, want{number(p.from.Position.After), number(p.to.Position.After), int(p.changes), p.begun, p.due})
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	held, dropped := appliedPage{batch: settledPage(1), due: m}, appliedPage{due: m}
	for _, c := range []struct{ first, next appliedPage }{{held, dropped}, {dropped, held}, {held, held}} {
		if c.first.extend(c.next, m) {
			t.Errorf("a page that is held is joined with another: %+v, %+v", c.first, c.next)
		}
	}
}

// What is urgent (a load waits for a first read, and the children for the end) stays so until it is
// committed, whatever else is read meanwhile. Other progress has its time.
func TestWhatIsUrgentStaysUrgent(t *testing.T) {
	unread := checkpoint.Progress{}
	type page struct {
		changes int
		to      checkpoint.Progress
		end     bool
	}
	for name, c := range map[string]struct {
		read   checkpoint.Progress
		pages  []page
		urgent bool
	}{
		"a first read":                {unread, []page{{0, upTo(0), false}}, true},
		"a first read, and another":   {unread, []page{{0, upTo(0), false}, {1, upTo(1), false}}, true},
		"an end":                      {upTo(1), []page{{1, upTo(2), true}}, true},
		"no first read: it had none":  {unread, []page{{0, unread, false}}, false},
		"neither":                     {upTo(1), []page{{1, upTo(2), false}, {0, upTo(2), false}}, false},
		"a first read with its end":   {unread, []page{{0, upTo(0), true}}, true},
		"changes of the first answer": {unread, []page{{2, upTo(2), false}, {1, upTo(3), false}}, true},
	} {
		playScene(t, func(s *scene) {
			s.Late = time.Minute
			w := s.settler()
			w.read, w.settled = c.read, c.read
			for _, p := range c.pages {
				if !w.add(s.ctx, settledPage(1), p.changes, w.read, p.to, p.end) {
					t.Error("it settles nothing")
				}
			}
			now := task.Mono(s.ctx)
			if step := w.next(now, now); step.commit != c.urgent || c.urgent == (step.wait > 0) && step.commit == (step.wait == 0) {
				t.Errorf("%s: %+v", name, step)
			}
			if step := w.next(now, now); step.commit {
				t.Errorf("%s: it is committed again and again", name)
			}
		})
	}
}

// Each step of a settler: its front when that is due, a commit in its time, the end when all is
// settled and read, and else a wait until the first of these.
func TestStepsOfASettler(t *testing.T) {
	const now, late = time.Hour, time.Minute
	for name, c := range map[string]struct {
		edit      func(w *settler)
		committed time.Duration
		want      settleStep // front: any
	}{
		"idle":                      {func(*settler) {}, now, settleStep{wait: 5 * time.Second}},
		"renewed a while ago":       {func(*settler) {}, now - 3*time.Second, settleStep{wait: 2 * time.Second}},
		"to be renewed":             {func(*settler) {}, now - 5*time.Second, settleStep{commit: true}},
		"dirty":                     {func(w *settler) { w.dirty = true }, now, settleStep{wait: time.Second}},
		"dirty for long":            {func(w *settler) { w.dirty = true }, now - time.Second, settleStep{commit: true}},
		"urgent":                    {func(w *settler) { w.urgent = true }, now, settleStep{commit: true, wait: 5 * time.Second}},
		"a page waits":              {func(w *settler) { w.queue = []appliedPage{{due: now + 2*time.Second}} }, now, settleStep{wait: 2 * time.Second}},
		"a page waits for longer":   {func(w *settler) { w.queue = []appliedPage{{due: now + late}} }, now, settleStep{wait: 5 * time.Second}},
		"a page is due":             {func(w *settler) { w.queue = []appliedPage{{due: now}} }, now, settleStep{front: &appliedPage{}, wait: 5 * time.Second}},
		"nothing is read any more":  {func(w *settler) { w.reading = false }, now, settleStep{stopped: true, wait: 5 * time.Second}},
		"read to its end":           {func(w *settler) { w.reading, w.ended = false, true }, now, settleStep{stopped: true, finished: true, wait: 5 * time.Second}},
		"the last page is at work":  {func(w *settler) { w.ended = true }, now, settleStep{wait: 5 * time.Second}},
		"read, and not settled":     {func(w *settler) { w.reading, w.ended, w.queue = false, true, []appliedPage{{due: now + 1}} }, now, settleStep{stopped: true, wait: 1}},
		"read, and its page is due": {func(w *settler) { w.reading, w.ended, w.queue = false, true, []appliedPage{{due: now}} }, now, settleStep{stopped: true, front: &appliedPage{}, wait: 5 * time.Second}},
	} {
		playScene(t, func(s *scene) {
			w := s.settler()
			c.edit(w)
			got := w.next(now, c.committed)
			if got.commit != c.want.commit || got.wait != c.want.wait || got.stopped != c.want.stopped || got.finished != c.want.finished || (got.front != nil) != (c.want.front != nil) {
				t.Errorf("%s: %+v", name, got)
			}
		})
	}
}

// The checkpoint is the queue's front: whoever takes the shard over settles what is behind it. What
// was read beyond it is told as that, and not as caught up.
func TestH39_TheCheckpointIsTheFrontOfTheQueue(t *testing.T) {
	read := upTo(9)
	read.EventTime, read.CellTime, read.CaughtUp, read.ReadAt, read.Rate = settlesAt.Add(time.Hour), settlesAt.Add(2*time.Hour), true, settlesAt.Add(3*time.Hour), 4
	for _, ended := range []bool{false, true} {
		w := &settler{settled: upTo(3), read: read, ended: ended, pending: 6, queue: []appliedPage{{}}}
		p := w.progress()
		waiting := checkpoint.Settling{Changes: 6, EventTime: read.EventTime, CellTime: read.CellTime, CaughtUp: true}
		if number(p.Position.After) != 3 || p.Applied != 3 || p.CaughtUp || p.Settling != waiting || p.Ended != ended || !p.ReadAt.Equal(read.ReadAt) || p.Rate != 4 || !p.FirstRead.Equal(settlesAt) {
			t.Errorf("ended %t, while a page waits: %+v", ended, p)
		}
		w.queue = nil
		if p = w.progress(); number(p.Position.After) != 9 || p.Applied != 9 || !p.CaughtUp || p.Settling != (checkpoint.Settling{}) || p.Ended != ended {
			t.Errorf("ended %t, and all is settled: %+v", ended, p)
		}
	}
}

// While nothing waits, what was read is settled, also pages of which nothing is applied: those
// before a cut, and empty ones, which show up to when the shard is applied. When a page waits
// again, the checkpoint stays there. Did it go back, each commit would be refused, and a worker
// that takes the shard over would find a gap where there is none (H75).
func TestH75_WhatIsReadWhileNothingWaitsIsSettled(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Late = time.Minute
		w := s.settler()
		dropped, empty, page, next := upTo(2), upTo(2), upTo(3), upTo(4)
		dropped.Dropping = true
		empty.AppliedTo, empty.CaughtUp = settlesAt.Add(time.Hour), true
		page.AppliedTo, next.AppliedTo = empty.AppliedTo, empty.AppliedTo
		read := func(changes int, from, to checkpoint.Progress) checkpoint.Progress {
			w.add(s.ctx, settledPage(1), changes, from, to, false)
			s.must(w.lease.Commit(s.ctx, w.progress()))
			return w.progress()
		}
		read(0, checkpoint.Progress{}, dropped)
		read(0, dropped, empty)
		for _, waits := range []checkpoint.Progress{read(1, empty, page), read(1, page, next)} {
			if number(waits.Position.After) != 2 || waits.Applied != 2 || !waits.AppliedTo.Equal(empty.AppliedTo) || waits.Dropping || waits.CaughtUp {
				t.Errorf("%+v", waits)
			}
		}
		if w.pop(); number(w.progress().Position.After) != 3 || w.progress().Settling.Changes != 1 {
			t.Errorf("%+v", w.progress())
		}
	})
}

// What waits takes room, and gives it back: as it is settled, and as the shard is given up.
func TestTheRoomOfASettler(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Late = time.Minute
		w := s.settler()
		size := engine.PageBytes + settledPage(1).Size()
		w.room = NewSettleRoom(2 * size)
		for n := range 3 {
			w.add(s.ctx, settledPage(1), 1, upTo(n), upTo(n+1), false)
		}
		if w.queue[1].batch == nil || w.queue[2].batch != nil || w.room.left != 0 || w.pending != 3 {
			t.Errorf("%d left, %+v", w.room.left, w.queue)
		}
		w.dirty = false
		w.pop()
		if w.room.left != size || w.pending != 2 || !w.dirty || number(w.settled.Position.After) != 1 || len(w.queue) != 2 {
			t.Errorf("%d left, %d wait", w.room.left, w.pending)
		}
		w.abandon()
		if w.room.left != 2*size || w.pending != 0 || len(w.queue) != 0 {
			t.Errorf("given up: %d left, %d wait", w.room.left, w.pending)
		}
		if w.room.take(2*size + 1) {
			t.Error("more is taken than there is")
		}
	})
}

// A drain leaves what is not due, and what it broke off, to the next worker: it is not committed,
// whether it was held or is read again. The next one counts the delay anew, from its own reading.
func TestH39_ADrainLeavesWhatIsNotSettled(t *testing.T) {
	for name, c := range map[string]struct {
		room   int64
		breaks bool // DynamoDB does not answer any more when the page is due
		drain  time.Duration
	}{
		"not due, held":           {engine.SettleBytes, false, 40 * time.Second},
		"not due, dropped":        {0, false, 40 * time.Second},
		"broken off while reread": {0, true, 65 * time.Second},
	} {
		playScene(t, func(s *scene) {
			s.Late, s.room, s.Timing.Yield = time.Minute, c.room, time.Hour
			s.shard("s", "")
			s.put("a", "b")
			s.after(50*time.Second, func() {
				if c.breaks {
					s.stream.fails = func(string) error { return &cdc.Error{Op: "GetRecords", Reason: cdc.Unavailable} }
				}
			})
			s.follows(c.drain)
			if row := s.row("s"); s.at() != 0 || row.Settling.Changes != 2 || row.Owner != "" || len(s.exact()) > 0 || !slices.Equal(s.first(), []int{1, 2}) || s.took() > c.drain+5*time.Second {
				t.Errorf("%s: at %d after %s, %+v, wrote %+v", name, s.at(), s.took(), row.Settling, s.wrote)
			}
			s.stream.fails, s.wrote, s.parts = nil, nil, nil
			s.follows(2 * time.Minute)
			if row := s.row("s"); s.at() != 2 || row.Settling.Changes != 0 || !slices.Equal(s.exact(), []int{1, 2}) || s.wrote[len(s.wrote)-1].after < time.Minute {
				t.Errorf("%s, the next worker: at %d, wrote %+v", name, s.at(), s.wrote)
			}
		})
	}
}

// A shard that was read to its end is done when all of it is settled. Until then its children may
// be read, and a run with Once waits for it; it is neither behind nor caught up.
func TestAShardIsDoneWhenAllIsSettled(t *testing.T) {
	for _, once := range []bool{false, true} {
		playScene(t, func(s *scene) {
			s.Late, s.Once = time.Minute, once
			s.shard("s", "")
			s.shard("child", "s")
			s.put("a", "b")
			s.stream.put("child", "c")
			s.stream.shards["s"].closed, s.stream.shards["child"].closed = true, true
			lags := 0
			s.Events.Lag = func(_ string, lag, _ time.Duration) {
				if lag > 10*time.Second {
					lags++
				}
			}
			s.change(func(state *checkpoint.TableState) { state.StreamEnded = true })
			s.after(50*time.Second, func() {
				if row := s.row("s"); row.State != checkpoint.Reading || !row.Ended() || s.at() != 0 || len(s.wrote) != 3 || s.wrote[2].after > 4*time.Second || slices.Contains(s.told, "finished") {
					t.Errorf("before it is settled: %+v, %q", row, s.told)
				}
			})
			s.follows(3 * time.Minute)
			if row := s.row("s"); row.State != checkpoint.Done || s.at() != 2 || !slices.Equal(s.exact(), []int{1, 2, 1}) || s.row("child").State != checkpoint.Done || lags > 0 || slices.Contains(s.told, "finished") != once || row.Settling.Changes != 0 {
				t.Errorf("%+v, wrote %+v, told %q, behind %d times", row, s.wrote, s.told, lags)
			}
			if once && s.took() > 2*time.Minute {
				t.Errorf("it ended after %s", s.took())
			}
		})
	}
}

// A page is settled when it is due, and what waits is in the shard's row within a second: a cutover
// and a run with Once look there. A drain is over at once, although pages wait.
func TestASettlerKeepsItsTimes(t *testing.T) {
	for _, room := range []int64{0, engine.SettleBytes} {
		playScene(t, func(s *scene) {
			s.Late, s.room = 8*time.Second, room
			s.shard("s", "")
			s.after(11*time.Second, func() { s.put("a") })
			s.after(14*time.Second, func() {
				if row := s.row("s"); row.Settling.Changes != 1 || s.at() != 0 {
					t.Errorf("%+v waits", row.Settling)
				}
			})
			s.after(23*time.Second, func() {
				if row := s.row("s"); row.Settling.Changes != 0 || s.at() != 1 {
					t.Errorf("at %d, %+v waits when it is settled", s.at(), row.Settling)
				}
			})
			s.after(26*time.Second, func() { s.put("b") })
			s.follows(30 * time.Second)
			if len(s.exact()) != 1 || s.wrote[1].after-s.wrote[0].after < s.Late || s.wrote[1].after-s.wrote[0].after > s.Late+1500*time.Millisecond || s.took() > 31*time.Second {
				t.Errorf("over after %s, %+v", s.took(), s.wrote)
			}
		})
	}
}

// A run with Once is not over while a change waits for its second application.
func TestOnceWaitsForWhatSettles(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Late, s.Once = time.Minute, true
		s.shard("s", "")
		s.put("a")
		s.follows(3 * time.Minute)
		if !slices.Equal(s.exact(), []int{1}) || s.at() != 1 || !slices.Contains(s.told, "finished") || s.took() > 90*time.Second {
			t.Errorf("over after %s, at %d, %+v", s.took(), s.at(), s.wrote)
		}
	})
}

// What was dropped for want of room is settled as what was held: the same requests, in pages as
// large as the service likes, and nothing beyond the stretch, whose turn has not come. What is
// parked already is not parked again.
func TestH111_ADroppedPageIsSettledAsOneThatWasHeld(t *testing.T) {
	for name, edit := range map[string]func(s *scene){
		"rows are ours":     func(*scene) {},
		"rows may be older": func(s *scene) { s.change(func(state *checkpoint.TableState) { state.Base = 6 }) },
		"changes before a cut": func(s *scene) {
			s.change(func(state *checkpoint.TableState) { state.Cut = s.world.Now().Add(4 * time.Second) })
			s.stream.size = 2
			s.after(2*time.Second+time.Millisecond, func() { s.stream.shards["s"].changes[1].Time = s.world.Now().Add(5 * time.Second) }) // one of a page
		},
		"large pages afterward": func(s *scene) { s.after(55*time.Second, func() { s.stream.size = 100 }) },
		"a failure":             func(s *scene) { s.failsOnce(61 * time.Second) },
	} {
		settled := func(room int64) (all []wrote) {
			playScene(t, func(s *scene) {
				s.Late, s.room = time.Minute, room
				s.shard("s", "", func(row *checkpoint.Shard) { row.Dropping = name == "changes before a cut" })
				edit(s)
				s.after(2*time.Second, func() { s.put("a", "b") })
				for i := range 6 { // joined with those before, and too late for that
					s.after(8*time.Second+time.Duration(i)*1500*time.Millisecond, func() { s.put(fmt.Sprint("c", i), fmt.Sprint("d", i)) })
				}
				s.after(30*time.Second, func() { s.put("late") })
				s.follows(2 * time.Minute)
				for _, w := range s.wrote {
					if w.exact {
						if w.after < time.Minute+2*time.Second || w.n == 15 && w.after < time.Minute+30*time.Second {
							t.Errorf("%s, room of %d: change %d after %s", name, room, w.n, w.after)
						}
						w.after = 0
						all = append(all, w)
					}
				}
				if row := s.row("s"); s.at() != 15 || row.Settling.Changes != 0 {
					t.Errorf("%s, room of %d: at %d, failed %q, told %q", name, room, s.at(), s.failed, s.told)
				}
				if s.parts.follower.room.left != room {
					t.Errorf("%s: of a room of %d there are %d left", name, room, s.parts.follower.room.left)
				}
				for range 24 {
					if !s.table.Worker.Slots.TryAcquire(1) {
						t.Errorf("%s: a page keeps its place", name)
					}
				}
			})
			slices.SortStableFunc(all, func(a, b wrote) int { return a.n - b.n })
			return all
		}
		held, dropped := settled(1<<20), settled(0)
		if !reflect.DeepEqual(held, dropped) || len(held) < 13 {
			t.Errorf("%s: held %+v,\ndropped %+v", name, held, dropped)
		}
	}
}

// A page that was dropped, and is trimmed before it is due, is lost: it is applied once, and
// perhaps under an older image. The checkpoint stays before it, and the shard becomes a gap.
func TestADroppedPageThatIsTrimmedIsAGap(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Late, s.room = time.Minute, 0
		s.shard("s", "")
		s.put("a")
		s.after(70*time.Second, func() { s.put("b") })
		s.after(100*time.Second, func() { s.stream.trimmed = 2 })
		s.follows(4 * time.Minute)
		if row := s.row("s"); row.State != checkpoint.Gap || row.Loss != checkpoint.Trimmed || s.at() != 1 || !slices.Equal(s.exact(), []int{1}) || s.state().Generation == 7 || row.Settling.Changes != 0 {
			t.Errorf("%s at %d, %+v, told %q", row.State, s.at(), s.wrote, s.told)
		}
	})
}

// A settler that takes a shard over begins where its row stands: before its first answer there is
// nothing else to commit, however long that takes.
func TestASettlerBeginsWhereTheRowStands(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Late = time.Minute
		s.shard("s", "", func(row *checkpoint.Shard) {
			row.Position, row.Applied, row.EventTime, row.FirstRead = cdc.SequenceOf(2), 2, s.world.Now(), s.world.Now()
		})
		s.put("a", "b")
		s.stream.fails = func(string) error {
			if s.took() < 30*time.Second {
				return &cdc.Error{Op: "GetRecords", Reason: cdc.Unavailable}
			}
			return nil
		}
		s.after(20*time.Second, func() {
			if row := s.row("s"); s.at() != 2 || row.Applied != 2 || row.FirstRead.IsZero() {
				t.Errorf("%+v", row)
			}
		})
		s.follows(40 * time.Second)
		if s.at() != 2 || slices.Contains(s.failed, "commit") || len(s.wrote) > 0 {
			t.Errorf("at %d, failed %q, wrote %+v", s.at(), s.failed, s.wrote)
		}
	})
}

// failsOnce lets one read fail, some time after the worker began.
func (s *scene) failsOnce(after time.Duration) {
	failed := false
	s.stream.fails = func(string) error {
		if failed || s.took() < after {
			return nil
		}
		failed = true
		return &cdc.Error{Op: "GetRecords", Reason: cdc.Unavailable}
	}
}
