package sim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// The hazards of this file concern shards: their order, their ends, and late listings.

// unhurried slows the loops down, for scenarios of days.
func (s *scene) unhurried() {
	s.Lease = 20 * time.Minute
	s.Timing = engine.Timing{Poll: 4 * time.Minute, Pass: 4 * time.Minute, List: 20 * time.Minute, Commit: time.Minute}
}

// TestH08_MoreThanAPageInASecondThenASplit: the children continue in the second in which the parent
// had more than a page.
func TestH08_MoreThanAPageInASecondThenASplit(t *testing.T) {
	play(t, 5, 1, func(s *scene) {
		s.Source.RestartSequence = s.World.Rand().IntN(2) == 0
		s.running("a")
		write := func(from, to int) {
			for i := from; i < to; i++ {
				s.put(fmt.Sprint(i%7), fmt.Sprint("v", i))
			}
		}
		write(0, 1500)
		s.Source.Stream().Split(s.only())
		write(1500, 1600)
		s.inSync(2 * time.Minute)
	})
}

// TestH10_SequenceNumbersGrowLonger: 99… is followed by 100…. If they were compared as text, the
// position would not move and newer images would be rejected (I2, I6).
func TestH10_SequenceNumbersGrowLonger(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		s.Source.PageSize = 1 + s.World.Rand().IntN(5)
		s.running("a")
		for i := range 60 {
			s.put(fmt.Sprint(i%3), fmt.Sprint("v", i))
			if i%10 == 0 {
				s.sleep(s.upTo(3 * time.Second))
			}
		}
		s.inSync(time.Minute)
		records := s.only().Records
		if first, last := records[0].Change.Sequence, records[59].Change.Sequence; len(first.String()) == len(last.String()) {
			s.failf("the scenario has no sequence numbers of different lengths")
		}
	})
}

// TestH11_SequenceNumbersRestartInChild: children begin with lower numbers than their parents had
// (I1).
func TestH11_SequenceNumbersRestartInChild(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		s.Source.RestartSequence = true
		s.running("a")
		for generation := range 5 {
			for i := range 6 {
				s.put(fmt.Sprint(i), fmt.Sprint("v", generation, i))
			}
			s.Source.Stream().Roll(s.only())
		}
		s.inSync(5 * time.Minute)
	})
}

// TestH12_ParentStillShownOpen: the listing shows the children while it still shows their parent as
// open. The children neither start before the parent is read to its end (checkParent) nor wait for
// the listing.
func TestH12_ParentStillShownOpen(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		s.running("a")
		s.Start("b")
		parent := s.only()
		parent.EmptyPages = 100 // its end comes long after its children are listed
		s.put("k", "parent")
		parent.ShownOpenUntil = s.World.Now().Add(time.Hour)
		s.Source.Stream().Roll(parent)
		s.put("k", "child")
		s.inSync(5 * time.Minute)
	})
}

// TestH13_ChildrenListedLate: between a shard's end and the listing of its children, nothing counts
// as complete, however idle it looks (I4, I5).
func TestH13_ChildrenListedLate(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		s.stop(s.running("a"))
		child := s.Source.Stream().Roll(s.only())
		child.ListedFrom = s.World.Now().Add(s.upTo(20 * time.Minute))
		s.put("k", "child")
		b := s.Start("b", func(o *engine.Options) { o.Once = true })
		if err := b.Wait(s.ctx); err != nil {
			s.failf("ended with %v", err)
		}
		s.inSync(0)
	})
}

// TestH14_ParentTrimmedBeforeWeCame: in the first listing a shard names a parent that is no longer
// listed. The shard is a root (I10).
func TestH14_ParentTrimmedBeforeWeCame(t *testing.T) {
	play(t, 20, 2, func(s *scene) {
		s.put("k", "parent")
		for _, shard := range s.Source.Stream().Open() {
			s.Source.Stream().Roll(shard)
			shard.Hidden, shard.Gone = true, true
		}
		s.put("k", "child")
		s.put("l", "child")
		s.Start("a")
		s.inSync(2 * time.Minute)
	})
}

// TestH15_MoreThanAHundredShards: every shard of a long listing is read (I4). Tests in cdc show
// that every page of it is requested.
func TestH15_MoreThanAHundredShards(t *testing.T) {
	play(t, 2, 130, func(s *scene) {
		s.unhurried()
		s.Timing.Poll, s.Timing.Pass = 5*time.Second, 2*time.Second
		s.Start("a")
		s.Start("b")
		s.until(5*time.Minute, "loaded", func() bool { return s.State().Loaded() })
		for i := range 400 {
			s.put(fmt.Sprint(i), "v")
		}
		s.inSync(2 * time.Minute)
		s.Source.Stream().Roll(s.only())
		s.put("k", "child")
		s.inSync(2 * time.Minute)
		for _, shard := range s.Source.Stream().Shards {
			if state := s.state(shard); len(shard.Records) > 0 && state == "unknown" {
				s.failf("shard %s is not in the ledger", shard.ID)
			}
		}
	})
}

// TestH16_FinishedShardStaysListed: the service lists a shard for days after its end. If its row
// were removed meanwhile, it would count as new, and its lineage would be replayed or lost (I4,
// I7).
func TestH16_FinishedShardStaysListed(t *testing.T) {
	play(t, 2, 1, func(s *scene) {
		s.unhurried()
		s.running("a")
		old := s.only()
		old.StaysListed = true
		s.put("k", "old")
		s.sleep(10 * time.Minute)
		for range 2 { // a row stays as long as a child of its shard is unfinished
			s.Source.Stream().Roll(s.only())
			s.put("k", fmt.Sprint("new ", s.World.Steps()))
			s.inSync(time.Hour)
		}
		s.sleep(80 * time.Hour)
		s.put("k", "newest")
		s.inSync(time.Hour)
		if state := s.state(old); state != string(checkpoint.Done) {
			s.failf("the listed shard is %s in the ledger", state)
		}
		old.StaysListed = false
		s.until(2*time.Hour, "the row of a shard that nobody lists goes", func() bool { return s.state(old) == "unknown" })
		s.inSync(time.Hour)
	})
}

// TestH17_LastPageHasRecordsAndNoIterator: the end of a shard comes together with its last changes
// (I5).
func TestH17_LastPageHasRecordsAndNoIterator(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		s.running("a")
		for range 3 {
			for i := range 7 {
				s.put(fmt.Sprint(i), fmt.Sprint("v", s.World.Steps()))
			}
			s.Source.Stream().Roll(s.only())
			s.inSync(3 * time.Minute)
		}
	})
}

// lateAncestors creates a lineage whose first complete listing shows only the youngest shard. The
// others are listed and read when the youngest is already applied. They must rank below it, in
// their own order.
func lateAncestors(s *scene, length int) {
	s.Source.RestartSequence = true
	for age := range length {
		for i := age; i < 6; i++ { // only older shards write the first keys
			s.put(fmt.Sprint(5-i), fmt.Sprint("in shard ", age))
		}
		s.only().ListedFrom = time.Time{}
		if younger := length - 1 - age; younger > 0 {
			s.only().ListedFrom = s.World.Now().Add(time.Duration(younger)*time.Minute + 30*time.Second)
			s.Source.Stream().Roll(s.only())
		}
	}
	for _, shard := range s.Source.Stream().Shards[:length-1] {
		shard.ShownOpenUntil = s.World.Now().Add(s.upTo(5 * time.Minute))
	}
}

// TestH66_LateParentAndGrandparent: both get ranks below their descendants', so their changes are
// older. The same applies to a parent that was missing in the middle of a lineage (I1, I2).
func TestH66_LateParentAndGrandparent(t *testing.T) {
	play(t, 40, 1, func(s *scene) {
		lateAncestors(s, 3)
		if s.World.Rand().IntN(2) == 0 {
			s.Source.Stream().Shards[0].ListedFrom = time.Time{}
		}
		s.Start("a")
		s.Start("b")
		s.until(6*time.Minute, "all three shards known", func() bool { return len(s.Shards()) == 3 })
		s.sleep(time.Minute)
		s.inSync(3 * time.Minute)
	})
}

// TestH66_LateParentAfterALoad: a parent is listed after its child was applied in an earlier
// generation. The parent's changes are older than the load and the child's, and would outrank both.
// So it is a gap, and none of it is applied (I1, I5).
func TestH66_LateParentAfterALoad(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		s.running("a")
		late := s.Source.Stream().Roll(s.only())
		late.ListedFrom = s.World.Now().Add(50 * time.Hour)
		s.put("k", "in the parent")
		s.Source.Stream().Roll(late).ListedFrom = time.Time{}
		s.put("k", "in the child")
		s.gap(5*time.Minute, "never listed")
		s.until(5*time.Minute, "the child is applied", func() bool { return s.value("k") == "in the child" })
		s.redo()
		late.ListedFrom = time.Time{}
		s.gap(5*time.Minute, "in an earlier generation")
		s.sleep(5 * time.Minute)
		if s.value("k") != "in the child" {
			s.failf("the row holds %q", s.value("k"))
		}
		s.readsOn(time.Minute, "k", "l")
	})
}

// redo loads the table again, and waits until it is swept.
func (s *scene) redo() {
	ledger, err := s.Ledger(s.ctx)
	if err == nil {
		_, err = ledger.Redo(s.ctx, s.Source.Name, s.State().Generation, "asked for", true)
	}
	if err != nil {
		s.failf("%v", err)
	}
	s.until(30*time.Minute, "loaded and swept", func() bool { state := s.State(); return state.Base == state.Generation })
}

// outage stops the only worker when a shard was just rolled and finished and its child has returned
// nothing yet. Then the application writes to the child. After d it starts a worker again.
func outage(s *scene, d time.Duration) *Worker {
	a := s.running("a")
	s.put("k", "before")
	s.inSync(time.Minute)
	parent := s.only()
	child := s.Source.Stream().Roll(parent)
	s.until(5*time.Minute, "parent done, child begun", func() bool {
		return s.state(parent) == string(checkpoint.Done) && s.state(child) == string(checkpoint.Reading)
	})
	s.stop(a)
	s.sleep(time.Minute)
	s.put("lost", "first in the child")
	s.sleep(d)
	s.put("k", "after")
	return s.Start("b")
}

// TestH75_HorizonAfterMoreThanADay: the child's first changes were trimmed, and a read from its
// horizon returns the rest without an error (I5).
func TestH75_HorizonAfterMoreThanADay(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		b := outage(s, 24*time.Hour+s.upTo(10*time.Hour))
		s.gap(5*time.Minute, "may be lost")
		s.readsOn(time.Minute, "k", "lost")
		if b.Over {
			s.failf("the worker ended with %v", b.Err)
		}
	})
}

// fromNow and fromHorizon make a worker follow changes without a load: from now on, or from the
// oldest change of the stream.
func fromNow(o *engine.Options)     { o.Tables[0].Copy, o.Tables[0].FromNow = false, true }
func fromHorizon(o *engine.Options) { o.Tables[0].Copy, o.Tables[0].FromNow = false, false }

// TestH75_ThrottledForADay: a root is read once, as the load requires. Then it is throttled for
// more than a day under one lease, because other workers would be throttled too. Its iterator
// expires. The next one begins at the horizon, which returns the rest without an error (I5).
func TestH75_ThrottledForADay(t *testing.T) {
	play(t, 2, 1, func(s *scene) {
		s.unhurried()
		s.running("a")
		s.inSync(10 * time.Minute)
		from := s.World.Now()
		s.Source.Fault = func(op, _ string) error {
			if op == "GetRecords" && s.World.Now().Sub(from) < 25*time.Hour {
				return model.Fail(op, cdc.Throttled)
			}
			return nil
		}
		s.put("lost", "v")
		s.sleep(25 * time.Hour)
		s.gap(30*time.Minute, "may be lost")
	})
}

// TestH75_NotLoadedAndTheRootClosedAndEmpty: nothing is loaded, the root was closed and empty when
// it was listed, and it is read most of a day later. Its child's changes then count from the start,
// not from that read: half of them are trimmed when the child is read (I5).
func TestH75_NotLoadedAndTheRootClosedAndEmpty(t *testing.T) {
	for _, unloaded := range []func(*engine.Options){fromNow, fromHorizon} {
		play(t, 2, 1, func(s *scene) {
			s.unhurried()
			from, root := s.World.Now(), s.only()
			s.Source.Stream().Roll(root)
			s.Source.Fault = func(op, shard string) error {
				away := 20 * time.Hour
				if shard != root.ID {
					away = 30 * time.Hour
				}
				if op == "GetShardIterator" && s.World.Now().Sub(from) < away {
					return model.Fail(op, cdc.Denied)
				}
				return nil
			}
			s.Start("a", unloaded)
			s.sleep(time.Hour)
			s.put("lost", "v")
			s.sleep(29 * time.Hour)
			s.gap(30*time.Minute, "may be lost")
		})
	}
}

// TestH75_HorizonWithinADay: after 23 h 20 min nothing is lost, and no gap is declared (I10).
func TestH75_HorizonWithinADay(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		outage(s, 23*time.Hour+20*time.Minute)
		s.inSync(5 * time.Minute)
	})
}

// TestH75_ShownOpenLongAfterItsEnd: listings show a shard as open for hours after it was closed,
// although they also show its child. The child's coverage must not move on with these listings,
// because the child's first changes are trimmed unread (I5).
func TestH75_ShownOpenLongAfterItsEnd(t *testing.T) {
	t.Parallel()
	play(t, 8, 1, func(s *scene) {
		a := s.running("a")
		s.put("k", "before")
		s.inSync(time.Minute)
		parent := s.only()
		child := s.Source.Stream().Roll(parent)
		parent.ShownOpenUntil = s.World.Now().Add(6 * time.Hour)
		unreadable := map[string]bool{parent.ID: true, child.ID: true}
		s.Source.Fault = func(op, shard string) error {
			if op == "GetRecords" && unreadable[shard] {
				return model.Fail(op, cdc.Unavailable)
			}
			return nil
		}
		s.sleep(time.Minute)
		s.put("lost", "first in the child")
		s.sleep(2 * time.Hour)
		unreadable[parent.ID] = false
		s.until(5*time.Minute, "parent done, child begun", func() bool {
			return s.state(parent) == string(checkpoint.Done) && s.state(child) == string(checkpoint.Reading)
		})
		s.stop(a)
		s.Source.Fault = nil
		s.sleep(22*time.Hour + 20*time.Minute)
		s.put("k", "after")
		s.Start("b")
		s.gap(5*time.Minute, "may be lost")
		s.readsOn(time.Minute, "k", "lost")
	})
}

// TestH76_ChildListedAfterDays: a shard's child is first listed when the service no longer lists
// the shard itself. The row of the parent must still exist, or the child's place in the lineage
// would be lost. The child's changes are a gap.
func TestH76_ChildListedAfterDays(t *testing.T) {
	play(t, 2, 2, func(s *scene) {
		s.unhurried()
		s.running("a")
		parent := s.only()
		child := s.Source.Stream().Roll(parent)
		child.ListedFrom = s.World.Now().Add(80 * time.Hour)
		for i := range 20 {
			s.put(fmt.Sprint(i), "v")
		}
		s.until(time.Hour, "parent done", func() bool { return s.state(parent) == string(checkpoint.Done) })
		s.sleep(79 * time.Hour)
		if state := s.state(parent); state != string(checkpoint.Done) {
			s.failf("the row of a shard whose child was never listed is %s", state)
		}
		s.sleep(time.Hour)
		s.gap(2*time.Hour, "may be lost")
		s.readsOn(time.Hour, "1", "2", "3")
	})
}

// TestH76_OrphanIsNoRoot: after the first complete listing, a shard with an unknown parent has
// unread ancestors. So it is a gap, and its changes are applied in the next generation (I4, I5).
func TestH76_OrphanIsNoRoot(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		s.running("a")
		root := s.only()
		middle := s.Source.Stream().Roll(root)
		middle.Hidden = true
		s.put("k", "never read")
		s.Source.Stream().Roll(middle)
		s.put("k", "orphan's")
		s.gap(5*time.Minute, cdc.UnknownParent.String())
		s.until(time.Minute, "the orphan is read", func() bool { return s.value("k") == "orphan's" })
		s.readsOn(time.Minute, "k")
		if n := strings.Count(strings.Join(s.Gaps, "\n"), cdc.UnknownParent.String()); n != 1 {
			s.failf("the same orphan is %d gaps", n)
		}
	})
}
