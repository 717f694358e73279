package sim

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// The hazards of this file concern one item: crashes, pauses, and networks that repeat, delay and
// reorder its writes.

// after returns the fate of a write that is executed later, while its sender gets no answer and
// retries.
func after(d time.Duration) *model.Fate { return &model.Fate{Delay: d, Lose: true} }

// TestH01_H09_CrashBetweenApplyAndCheckpoint: the successor applies again what the ledger does not
// show. Without the guard, older images would replace newer ones. The order of changes within one
// second must not depend on a process's memory (I2, I7).
func TestH01_H09_CrashBetweenApplyAndCheckpoint(t *testing.T) {
	play(t, 30, 1, func(s *scene) {
		s.Source.PageSize = 1
		a := s.running("a")
		s.onWrite("k", func(n int) {
			if n == 6 {
				a.Kill()
			}
		})
		for i := range 8 {
			s.put("k", fmt.Sprint("v", i))
		}
		s.until(time.Minute, "killed", a.Dead)
		s.Start("b")
		s.inSync(2 * time.Minute)
	})
}

// TestH02_CheckpointWaitsForTheSlowestRow: one row of a page hangs while all others are written.
// Then the worker dies (I3).
func TestH02_CheckpointWaitsForTheSlowestRow(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		a := s.running("a")
		s.route("slow", &model.Fate{Drop: true}, &model.Fate{Drop: true}, &model.Fate{Drop: true}, &model.Fate{Drop: true}, &model.Fate{Drop: true})
		for i := range 30 {
			s.put(fmt.Sprint(i), "v")
		}
		s.put("slow", "v")
		s.sleep(s.upTo(5 * time.Second))
		a.Kill()
		s.Start("b")
		s.inSync(2 * time.Minute)
	})
}

// pausedOwner pauses a worker for a minute when part of its page is written. Another worker takes
// its shard and applies newer changes. Then the first one resumes. pausedOwner returns once both
// stores are equal.
func pausedOwner(s *scene) {
	a := s.running("a")
	s.Start("b")
	paused := false
	s.Target.Route = func(c model.Call) *model.Fate {
		if !paused && c.Op == "CheckAndMutateRow" {
			paused = true
			a.Pause(time.Minute)
		}
		return nil
	}
	for i := range 40 {
		s.put(fmt.Sprint(i), "old")
	}
	s.sleep(10 * time.Second)
	for i := range 40 {
		if i%3 == 0 {
			s.del(fmt.Sprint(i))
		} else {
			s.put(fmt.Sprint(i), "new")
		}
	}
	s.sleep(time.Minute + s.upTo(20*time.Second))
	s.inSync(2 * time.Minute)
}

// TestH03_PausedOwnerWakesUpWithQueuedWrites: the queued writes are older than the rows by then
// (I2, I8).
func TestH03_PausedOwnerWakesUpWithQueuedWrites(t *testing.T) {
	play(t, 30, 1, pausedOwner)
}

// TestH04_H29_FirstAttemptExecutesLast: a request without an answer is retried and acknowledged. A
// newer change, which removes an attribute, follows. Then the first attempt is executed (I2).
func TestH04_H29_FirstAttemptExecutesLast(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		s.running("a")
		s.route("k", after(time.Minute), after(50*time.Second))
		s.putWith("k", "value", "old", "drop", "2")
		s.until(40*time.Second, "applied by a later attempt", func() bool { return s.value("k") == "old" })
		s.put("k", "new")
		s.inSync(30 * time.Second)
		s.sleep(2 * time.Minute)
		s.inSync(0)
	})
}

// burst writes an item many times within one second, so that times do not order the writes, in
// pages of random size.
func burst(s *scene, n int) {
	s.Source.PageSize = 1 + s.World.Rand().IntN(4)
	for i := range n {
		if s.World.Rand().IntN(4) == 0 {
			s.del("k")
		} else {
			s.put("k", fmt.Sprint("v", i))
		}
	}
}

// TestH06_H28_ManyUpdatesInOneSecond: the last write by sequence number wins, not the last by time
// (I1). Garbage collection is lazy, so no surplus cells may exist: a live row has one version cell
// at the constant timestamp, a removed one a single tombstone.
func TestH06_H28_ManyUpdatesInOneSecond(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		s.running("a")
		for range 3 {
			burst(s, 9)
			s.inSync(time.Minute)
		}
		s.sleep(time.Minute)
		s.oneVersionCell("k")
	})
}

// TestH07_TimeGoesBack: a later change has an earlier second (I1).
func TestH07_TimeGoesBack(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		s.Source.TimeRunsBack = true
		s.running("a")
		for i := range 7 { // every third time goes back, whatever its second
			s.put("k", fmt.Sprint("v", i))
			s.sleep(s.upTo(time.Second))
			s.inSync(time.Minute)
		}
	})
}

// TestH26_LatePutAfterRemoveAndRecreation: a put from before the removal is executed after it, or
// after the item was recreated. It must neither bring the row back nor mix with the new item (I8).
func TestH26_LatePutAfterRemoveAndRecreation(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		s.running("a")
		s.route("k", after(2*time.Minute))
		s.putWith("k", "first", "1")
		s.until(time.Minute, "applied", func() bool { return s.row("k") != nil })
		s.del("k")
		s.equal(time.Minute)
		if s.World.Rand().IntN(2) == 0 {
			s.putWith("k", "second", "2")
		}
		s.inSync(time.Minute)
		s.sleep(3 * time.Minute)
		s.inSync(0)
	})
}

func (s *scene) oneVersionCell(key string) {
	live := s.row(key).Cells(sink.LiveFamily, sink.VersionColumn)
	gone := s.row(key).Cells(sink.GoneFamily, sink.VersionColumn)
	if len(live)+len(gone) != 1 || len(live) == 1 && live[0] != 0 {
		s.failf("the row of %s has live versions at %v and tombstones at %v", key, live, gone)
	}
}

// TestH30_ColumnThatNoOldImageNames: the stream has only new images, so nothing names the columns
// of the previous image. They must still be deleted (I1).
func TestH30_ColumnThatNoOldImageNames(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		s.Source.View = "NEW_IMAGE"
		s.Source.PageSize = 1 + s.World.Rand().IntN(3)
		s.running("a")
		for i := range 6 {
			s.putWith("k", fmt.Sprint("column", i), "v")
			s.sleep(s.upTo(2 * time.Second))
		}
		s.inSync(time.Minute)
	})
}

// TestH31_ItemRemovedWhileTheScanHoldsIt: the load's put of an item is executed, or sent, after the
// stream's removal of it was applied (I8).
func TestH31_ItemRemovedWhileTheScanHoldsIt(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		for i := range 10 {
			s.put(fmt.Sprint(i), "before")
		}
		// The items are older than the stream, so only the load brings them.
		s.Source.EnableStream(1)
		removed := map[string]bool{}
		s.Target.Route = func(c model.Call) *model.Fate {
			key, _, _ := strings.Cut(c.Row, "#")
			if c.Op != "CheckAndMutateRow" || removed[key] {
				return nil
			}
			removed[key] = true // this is the load's put, so the item is removed now
			s.del(key)
			return &model.Fate{Delay: s.upTo(30 * time.Second), Lose: s.World.Rand().IntN(2) == 0}
		}
		s.running("a")
		s.inSync(2 * time.Minute)
		s.sleep(time.Minute)
		s.inSync(0)
		if len(removed) != 10 || len(s.Source.Items()) != 0 {
			s.failf("%d items were removed while they were loaded, %d are left", len(removed), len(s.Source.Items()))
		}
	})
}

// TestH43_FastClockHidesNothing: a worker whose clock is an hour ahead writes versions, tombstones
// and the ledger. Its cells must not hide other workers' later writes (I6).
func TestH43_FastClockHidesNothing(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		s.put("k", "v")
		a := s.Start("a")
		a.Skew(time.Hour)
		s.inSync(5 * time.Minute)
		s.put("k", "w")
		s.put("gone", "w")
		s.inSync(time.Minute)
		s.del("gone")
		s.inSync(time.Minute)
		a.Kill()
		s.Start("b")
		for i := range 5 {
			s.put("k", fmt.Sprint("v", i))
			s.put("gone", fmt.Sprint("v", i))
			s.inSync(time.Minute)
			s.oneVersionCell("k")
			s.del("gone")
			s.inSync(time.Minute)
			s.oneVersionCell("gone")
		}
		if at := s.row("gone").Cells(sink.GoneFamily, sink.VersionColumn)[0]; at > s.World.Now().UnixMicro() {
			s.failf("a tombstone has a time of the future: it would be kept, or collected, by a worker's clock")
		}
	})
}

// TestH77_ServerClockStepsBackBetweenTombstones: the newer tombstone has the older timestamp. A
// late put with a version between theirs must still be refused (I8).
func TestH77_ServerClockStepsBackBetweenTombstones(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		s.running("a")
		s.put("k", "first")
		s.inSync(time.Minute)
		s.del("k")
		s.inSync(time.Minute)
		s.route("k", after(2*time.Minute))
		s.put("k", "late")
		s.inSync(time.Minute)
		s.Target.ServerSkew = -time.Hour
		s.del("k")
		s.inSync(time.Minute)
		s.sleep(3 * time.Minute)
		s.inSync(0)
	})
}

// TestH38_BadItemEndsACopy: workers must stop at an item that cannot be stored. Only the load
// brings this item, because the stream no longer has it. The worker ends with an error. Once the
// item is corrected, another worker continues and copies it (I5).
func TestH38_BadItemEndsACopy(t *testing.T) {
	play(t, 4, 1, func(s *scene) {
		s.putWith("bad", longName, "x")
		s.put("good", "v")
		s.sleep(25 * time.Hour)
		s.Policy.onBadItem = sink.Stop
		w := s.Start("a")
		s.until(5*time.Minute, "stopped", func() bool { return w.Over })
		var bad *sink.BadItem
		if !errors.As(w.Err, &bad) || s.Parked() > 0 {
			s.failf("the worker ended with %v, and %d items are parked", w.Err, s.Parked())
		}
		s.put("bad", "mended")
		s.Start("b")
		s.inSync(5 * time.Minute)
	})
}
