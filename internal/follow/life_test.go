package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
)

// What is read is written in its order, committed once it is durable, and given up by a drain with
// all that was read committed: another worker may take the shard at once, and writes nothing again.
func TestAShardIsFollowed(t *testing.T) {
	playScene(t, func(s *scene) {
		s.shard("s", "")
		s.put("a", "b", "c")
		s.after(10*time.Second, func() { s.put("a", "d") })
		s.follows(20 * time.Second)
		row := s.row("s")
		if !slices.Equal(s.exact(), []int{1, 2, 3, 4, 5}) || len(s.first()) > 0 || s.at() != 5 || row.Owner != "" || row.Applied != 5 || !row.CaughtUp || s.took() > 21*time.Second {
			t.Errorf("after %s: %+v, %+v", s.took(), s.wrote, row)
		}
		if !slices.Equal(s.told, []string{"taken s", "left s"}) || len(s.failed) > 0 || s.ticked < 10 || s.stream.reads > 82 { // four times a second, as long as something may come
			t.Errorf("told %q, failed %q, after %d reads", s.told, s.failed, s.stream.reads)
		}
		s.wrote, s.parts = nil, nil
		s.follows(10 * time.Second)
		if len(s.wrote) > 0 || s.row("s").Epoch != 2 {
			t.Errorf("the next worker: %+v", s.wrote)
		}
	})
}

// The checkpoint moves over what is durable alone, and a drain waits for what is being written: a
// worker that ends there loses nothing, and one that is ended repeats it.
func TestI3_TheCheckpointFollowsTheWrite(t *testing.T) {
	for name, c := range map[string]struct {
		answers time.Duration // so long the target does not answer, from the start
		at      int           // where the checkpoint stands in the end
		within  time.Duration
	}{
		"it answers before the drain":    {8 * time.Second, 2, 11 * time.Second},
		"it answers after the drain":     {20 * time.Second, 1, 22 * time.Second},
		"it does not answer in its time": {time.Hour, 0, 41 * time.Second},
	} {
		playScene(t, func(s *scene) {
			s.shard("s", "")
			s.put("a", "b")
			s.answer = func(ctx context.Context, r *sink.Request) error {
				if n := number(r.Refuse.AtLeast.Sequence()); s.at() >= n {
					t.Errorf("%s: at %d before change %d is written", name, s.at(), n)
				}
				if err := task.Sleep(ctx, c.answers-s.took()); err != nil {
					return &sink.Error{Op: "CheckAndMutateRow", Reason: sink.Unknown, Code: "Unavailable"}
				}
				return nil
			}
			_ = s.works(10 * time.Second)
			if s.at() != c.at || s.took() > c.within || (s.row("s").Owner == "") != (c.at > 0) {
				t.Errorf("%s: at %d after %s, %+v", name, s.at(), s.took(), s.row("s"))
			}
		})
	}
}

// commits counts the writes of a shard's row.
func (s *scene) commits() *int {
	n := 0
	s.store.OnSwap = func(_ context.Context, key string, do func() bool) (bool, error) {
		if strings.Contains(key, "/shard/") {
			n++
		}
		return do(), nil
	}
	return &n
}

// The first read is committed at once, because a load waits for it; changes once a second; and what
// an idle shard shows goes with the renewals of its lease.
func TestACheckpointHasItsTime(t *testing.T) {
	playScene(t, func(s *scene) {
		s.shard("s", "")
		n := s.commits()
		s.after(500*time.Millisecond, func() {
			if s.row("s").FirstRead.IsZero() {
				t.Error("the first read is not committed")
			}
		})
		s.follows(time.Minute)
		if *n < 12 || *n > 16 { // it is taken, read and released; renewed each five seconds
			t.Errorf("%d commits of an idle shard in a minute", *n)
		}
		if row := s.row("s"); row.ReadAt.Before(s.world.Now().Add(-2 * time.Second)) {
			t.Errorf("last read at %s", row.ReadAt)
		}
	})
	playScene(t, func(s *scene) {
		s.shard("s", "")
		n, last := s.commits(), 0
		for i := range 200 {
			s.after(time.Duration(i)*100*time.Millisecond, func() { s.put("a") })
		}
		s.after(19*time.Second, func() { last = s.at() })
		s.Timing.Poll = 10 * time.Millisecond
		s.follows(21 * time.Second)
		if *n < 15 || *n > 30 || last < 175 || s.at() != 200 {
			t.Errorf("%d commits of a busy shard in 20 seconds, at %d after 19 s", *n, last)
		}
	})
}

// A child is read as soon as its parent is done, and a shard that was read to its end is. The
// coordinator is woken: it lists the children.
func TestAShardThatEndsIsDone(t *testing.T) {
	playScene(t, func(s *scene) {
		s.Timing.Pass = 10 * time.Second
		s.shard("s", "")
		s.shard("child", "s")
		s.put("a", "b")
		s.stream.put("child", "a")
		s.after(10*time.Second, func() { s.stream.shards["s"].closed = true })
		s.after(9*time.Second, func() {
			if row := s.row("child"); row.State != checkpoint.Waiting || len(s.wrote) != 2 {
				t.Errorf("before its parent is done: %+v", row)
			}
		})
		s.follows(30 * time.Second)
		s.told = slices.DeleteFunc(s.told, func(what string) bool { return what == "taken s" })
		if row := s.row("s"); row.State != checkpoint.Done || row.DoneAt.IsZero() || len(s.wrote) != 3 || s.wrote[2].after > 12*time.Second ||
			!slices.Equal(s.told, []string{"done s", "left s", "taken child", "left child"}) {
			t.Errorf("%+v, wrote %+v, told %q", row, s.wrote, s.told)
		}
		before := task.Mono(s.ctx)
		if s.must(s.table.Wake.Reconciler.Wait(s.ctx, time.Hour)); task.Mono(s.ctx) != before {
			t.Error("the coordinator is not woken")
		}
	})
}

// What ends the reading of a shard, and what becomes of its lease: a loss makes it a gap and begins
// a generation; whoever may not write, or gets no answer, releases it for others and comes back
// later; what ends the process is handed on.
func TestWhatEndsAFollower(t *testing.T) {
	gone := &cdc.Error{Op: "GetRecords", Reason: cdc.NotFound, Err: errors.New("gone")}
	trimmed := &cdc.Error{Op: "GetRecords", Reason: cdc.Trimmed, Err: errors.New("trimmed")}
	denied := &cdc.Error{Op: "GetRecords", Reason: cdc.Denied, Err: errors.New("denied")}
	for name, c := range map[string]struct {
		fails  error // of the stream, from 5 s on
		state  checkpoint.State
		loss   checkpoint.Loss
		raised bool
		takes  int // how often the shard was taken in three minutes
	}{
		"the shard is gone":     {gone, checkpoint.Gap, checkpoint.NotFound, true, 1},
		"its changes are gone":  {trimmed, checkpoint.Gap, checkpoint.Trimmed, true, 1},
		"the source is refused": {denied, checkpoint.Reading, "", false, 3}, // given up a lease of 15 s later, four times that
	} {
		playScene(t, func(s *scene) {
			s.shard("s", "")
			s.after(5*time.Second, func() { s.stream.fails = func(string) error { return c.fails } })
			s.follows(3 * time.Minute)
			row, takes := s.row("s"), 0
			for _, what := range s.told {
				if what == "taken s" {
					takes++
				}
			}
			if row.State != c.state || row.Loss != c.loss || (s.state().Generation > 7) != c.raised || takes != c.takes || row.Owner != "" || slices.Contains(s.told, "gap s") != c.raised {
				t.Errorf("%s: %s %s in generation %d, told %q", name, row.State, row.Loss, s.state().Generation, s.told)
			}
		})
	}
	for name, of := range map[string]error{"orderly": checkpoint.ErrPaused, "fatal": checkpoint.ErrLedgerExchanged} {
		for by, late := range map[string]time.Duration{"a look": 0, "a commit": 0, "a settler's commit": time.Hour} {
			playScene(t, func(s *scene) {
				s.Late = late
				s.shard("s", "")
				s.after(5*time.Second, func() {
					if s.put("a"); by == "a look" {
						s.store.OnRead = func(context.Context, string) error { return of }
						return
					}
					s.store.OnSwap = func(context.Context, string, func() bool) (bool, error) { return false, of }
				})
				err := s.works(time.Minute)
				if orderly := name == "orderly"; errors.Is(err, of) == orderly || errors.Is(s.halted, of) != orderly || orderly && err != nil || !orderly && s.took() > 20*time.Second {
					t.Errorf("%s, %s: %v after %s, halted by %v", name, by, err, s.took(), s.halted)
				}
			})
		}
	}
}

// A position that was trimmed is read on from the horizon only where the shard was found empty
// since, and its last change is as old as the stream keeps any. A younger one was trimmed early,
// and so may be what followed it: that is a gap, and never passed over.
func TestATrimmedPositionIsReadOnOrIsAGap(t *testing.T) {
	for changed, gap := range map[time.Duration]bool{25 * time.Hour: false, time.Hour: true} {
		playScene(t, func(s *scene) {
			s.shard("s", "", func(row *checkpoint.Shard) {
				now := s.world.Now()
				row.Position, row.EventTime, row.FirstRead, row.AppliedTo = cdc.SequenceOf(1), now.Add(-changed), now.Add(-30*time.Hour), now.Add(-10*time.Minute)
			})
			s.put("a")
			s.stream.trimmed = 2
			s.after(10*time.Second, func() { s.put("b") })
			s.follows(30 * time.Second)
			if row := s.row("s"); (row.State == checkpoint.Gap) != gap || (s.at() == 2) == gap || len(s.wrote) > 1 {
				t.Errorf("changed %s ago: %s at %d, %+v", changed, row.State, s.at(), s.wrote)
			}
		})
	}
}

// A read at the horizon fails for nothing that was trimmed. What it is judged by is handed to each
// reader: up to when the lineage is covered, and up to when empty pages show that nothing came.
func TestTheHorizonIsJudgedByTheRow(t *testing.T) {
	for name, c := range map[string]struct {
		covered, applied time.Duration // ago
		gap              bool
	}{
		"covered in time":       {23 * time.Hour, 0, false},
		"covered too long ago":  {25 * time.Hour, 0, true},
		"but found empty since": {25 * time.Hour, time.Hour, false},
	} {
		playScene(t, func(s *scene) {
			s.shard("s", "", func(row *checkpoint.Shard) {
				row.CoveredTo = s.world.Now().Add(-c.covered)
				if c.applied > 0 {
					row.AppliedTo, row.FirstRead = s.world.Now().Add(-c.applied), s.world.Now().Add(-25*time.Hour)
				}
			})
			s.put("a")
			s.follows(10 * time.Second)
			if row := s.row("s"); (row.State == checkpoint.Gap) != c.gap || (len(s.wrote) == 0) != c.gap {
				t.Errorf("%s: %s, wrote %+v", name, row.State, s.wrote)
			}
		})
	}
}

// Once the fence has risen a worker proves its right before it writes again: it still holds the
// lease, in the same generation, and the table is not halted. If it is, the worker writes nothing
// and releases the shard at once: while a row names it, it counts as alive. It goes on when the
// halt is over.
func TestH35_TheRightIsProvedUnderARisenFence(t *testing.T) {
	for _, halted := range []bool{false, true} {
		for _, late := range []time.Duration{0, 20 * time.Second} {
			playScene(t, func(s *scene) {
				s.Late = late
				s.shard("s", "")
				s.put("a")
				s.after(5*time.Second, func() {
					s.change(func(state *checkpoint.TableState) { state.Halt = checkpoint.Halt{Attempt: 1, On: halted} })
					_, err := s.Ledger.UpdateTarget(s.ctx, "orders", func(target *checkpoint.Target) error {
						target.Fence, target.Withheld, target.Halt = 9, "", checkpoint.Halt{Attempt: 1, On: halted}
						return nil
					})
					s.must(err)
				})
				s.after(9*time.Second, func() { s.put("b") })
				s.after(40*time.Second, func() {
					if row := s.row("s"); (row.Owner == "") != halted || slices.Contains(s.first(), 2) == (halted || late == 0) || slices.Contains(s.exact(), 2) == halted {
						t.Errorf("halted %t, late by %s: %+v, wrote %+v", halted, late, row, s.wrote)
					}
					s.change(func(state *checkpoint.TableState) { state.Halt = checkpoint.Halt{Attempt: 1} })
					_, err := s.Ledger.UpdateTarget(s.ctx, "orders", func(target *checkpoint.Target) error { return target.Unhalt(1) })
					s.must(err)
				})
				s.follows(90 * time.Second)
				last := s.wrote[len(s.wrote)-1]
				if last.n != 2 || !last.exact || last.sent.Ops[0].Family != sink.FenceFamily("l", 9) || s.at() != 2 {
					t.Errorf("halted %t, late by %s: at %d, wrote %+v", halted, late, s.at(), s.wrote)
				}
			})
		}
	}
}

// A worker that the source does not answer leaves a shard alone for a few passes, so that another
// may take it. When it takes it back its row tells since when there is no answer. Until then the
// shard counts: the table is behind, and not unread.
func TestAShardThatIsGivenUpIsTakenBack(t *testing.T) {
	playScene(t, func(s *scene) {
		s.shard("s", "")
		s.stream.fails = func(string) error {
			if s.took() > 5*time.Second {
				return &cdc.Error{Op: "GetRecords", Reason: cdc.Denied, Err: errors.New("denied")}
			}
			return nil
		}
		var left, taken time.Duration
		s.Events.ShardLeft = func(string, string, error) { left = s.took() }
		s.Events.ShardTaken = func(string, string, uint64) { taken = s.took() }
		s.Events.NotReading = func(string) {
			if s.took() > time.Second && s.took() < 140*time.Second {
				t.Errorf("after %s it says that it reads nothing", s.took())
			}
		}
		s.after(140*time.Second, func() {
			since := s.row("s").Trouble.Since
			if taken < left+3*2*time.Second || taken > left+12*time.Second || since.IsZero() || since.Sub(enginetest.ListingsBegin) > 10*time.Second {
				t.Errorf("left after %s, taken after %s, in trouble since %s", left, taken, since)
			}
		})
		s.follows(141 * time.Second)
	})
}

// What was given up counts no more when another worker has it: the table is read there, and not
// behind here.
func TestAShardThatAnotherTookIsNotBehind(t *testing.T) {
	playScene(t, func(s *scene) {
		s.shard("s", "")
		other := s.open("other")
		s.stream.fails = func(string) error {
			if s.took() > 5*time.Second {
				return &cdc.Error{Op: "GetRecords", Reason: cdc.Denied, Err: errors.New("denied")}
			}
			return nil
		}
		var left, unread time.Duration
		s.Events.ShardLeft = func(string, string, error) {
			left = s.took()
			lease, err := other.Take(s.ctx, s.row("s"), nil)
			s.must(err)
			s.world.Go("other", func(context.Context) { _ = lease.Keep() })
		}
		s.Events.NotReading = func(string) {
			if left > 0 && unread == 0 {
				unread = s.took()
			}
		}
		s.follows(140 * time.Second)
		if left == 0 || unread == 0 || unread > left+5*time.Second {
			t.Errorf("left after %s, it counts until %s", left, unread)
		}
	})
}

// Shards that are lost together are one gap: the first waits for what the others turn out to be.
func TestShardsThatAreLostTogetherAreOneGap(t *testing.T) {
	playScene(t, func(s *scene) {
		s.shard("s", "")
		s.shard("t", "")
		s.change(func(state *checkpoint.TableState) { state.AdoptedAt = s.world.Now() })
		s.stream.fails = func(shard string) error {
			if shard == "t" && s.took() < 20*time.Second {
				return &cdc.Error{Op: "GetRecords", Reason: cdc.Throttled}
			}
			return &cdc.Error{Op: "GetRecords", Reason: cdc.NotFound, Err: errors.New("gone")}
		}
		s.after(10*time.Second, func() {
			if s.row("s").State != checkpoint.Gap || s.state().Generation != 7 {
				t.Errorf("%s in generation %d", s.row("s").State, s.state().Generation)
			}
		})
		s.follows(40 * time.Second)
		if state := s.state(); state.Generation == 7 || state.GapCount != 2 || s.row("t").State != checkpoint.Gap {
			t.Errorf("%d gaps in generation %d, %s", state.GapCount, state.Generation, s.row("t").State)
		}
	})
}

// A worker whose lease was taken over writes and commits no more: the row is the other one's.
func TestALostLeaseEndsTheFollower(t *testing.T) {
	playScene(t, func(s *scene) {
		s.shard("s", "")
		other := s.open("other")
		s.after(5*time.Second, func() {
			lease, err := other.Take(s.ctx, s.row("s"), nil)
			s.must(err)
			s.put("a")
			s.world.Go("other", func(context.Context) { _ = lease.Keep() })
		})
		s.follows(time.Minute)
		if row := s.row("s"); row.Owner != "other" || row.Epoch != 2 || s.at() != 0 || !slices.Contains(s.told, "left s failed") {
			t.Errorf("%+v, told %q", row, s.told)
		}
	})
}

// A shard that is behind is read while the page before is written, in a place of its own; without
// one it waits for its turn. In the end all places are free.
func TestTheNextPageIsReadAhead(t *testing.T) {
	for pages, least := range map[int]time.Duration{1: 14 * time.Second, 2: 10 * time.Second} {
		playScene(t, func(s *scene) {
			s.Pages, s.stream.delay = pages, 500*time.Millisecond
			s.shard("s", "")
			for i := range 10 {
				s.put(fmt.Sprint(i))
			}
			s.answer = func(ctx context.Context, _ *sink.Request) error { return task.Sleep(ctx, time.Second) }
			s.follows(30 * time.Second)
			last := s.wrote[len(s.wrote)-1].after
			if !slices.Equal(s.exact(), []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) || last < least || last > least+2*time.Second || s.at() != 10 {
				t.Errorf("%d places: %+v", pages, s.wrote)
			}
			s.wrote, s.parts = nil, nil
			for i := range 10 {
				s.put(fmt.Sprint(i))
			}
			s.follows(3300 * time.Millisecond) // and is drained while a page is read ahead
			if s.at() != 10+len(s.wrote) || len(s.wrote) == 0 || len(s.wrote) > 5 {
				t.Errorf("%d places, drained: at %d, %+v", pages, s.at(), s.wrote)
			}
			for range pages {
				if !s.table.Worker.Slots.TryAcquire(1) {
					t.Errorf("of %d places some are not free", pages)
				}
			}
			if s.table.Worker.Slots.TryAcquire(1) {
				t.Errorf("there are more than %d places", pages)
			}
		})
	}
}

// What was read ahead is taken if it is what follows, and did not fail; an empty page only while it
// is young, because it says that nothing came since. What is not taken gives its place back.
func TestWhatWasReadAheadIsTaken(t *testing.T) {
	const soon = time.Second
	at := cdc.Position{After: cdc.SequenceOf(7)}
	some := cdc.Page{Changes: []cdc.Change{{Sequence: cdc.SequenceOf(8)}}, Next: "i"}
	for name, c := range map[string]struct {
		page   cdc.Page
		age    time.Duration
		from   cdc.Position
		failed error
		taken  bool
	}{
		"changes":               {some, time.Hour, at, nil, true},
		"of another position":   {some, 0, cdc.Position{}, nil, false},
		"it failed":             {cdc.Page{}, 0, at, errors.New("away"), false},
		"empty and young":       {cdc.Page{Next: "i"}, soon, at, nil, true},
		"empty and not so":      {cdc.Page{Next: "i"}, soon + 1, at, nil, false},
		"empty, and the end":    {cdc.Page{End: true}, time.Hour, at, nil, true},
		"changes, and the end":  {cdc.Page{Changes: some.Changes, End: true}, time.Hour, at, nil, true},
		"changes and it failed": {some, 0, at, errors.New("away"), false},
	} {
		playScene(t, func(s *scene) {
			s.Timing.Soon = soon
			s.prepares()
			_ = task.Sleep(s.ctx, 2*time.Hour)
			slots := s.table.Worker.Slots
			slots.Resize(1)
			s.must(slots.Acquire(s.ctx, 1))
			cancelled := false
			f := s.parts.follower
			p := &pageReader{follower: f, slot: engine.NewPageSlot(slots, f.calls), held: true, reading: task.NewGroup(s.ctx, 0), cancel: func() { cancelled = true }, from: c.from, failed: c.failed,
				ahead: readPage{Page: c.page, answered: task.Mono(s.ctx) - c.age}}
			got, ok := p.taken(s.ctx, at)
			if ok != c.taken || len(got.Changes) != len(c.page.Changes) && ok || !cancelled || p.reading != nil || p.slot.Held != c.taken || slots.TryAcquire(1) == c.taken {
				t.Errorf("%s: taken %t, %+v", name, ok, got)
			}
			if _, again := p.taken(s.ctx, at); again {
				t.Errorf("%s: it is taken twice", name)
			}
		})
	}
}
