package sim

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// The hazards of this file concern continuity: iterators that expire, streams that are trimmed or
// replaced, ledgers and targets that are lost. If replication cannot continue without loss, a gap
// is declared, otherwise not.

// TestH19_IteratorExpiresBeforeTheFirstRecord: the shard is read so seldom that each iterator
// expires. The next iterator begins at the same position, not at the end (I5).
func TestH19_IteratorExpiresBeforeTheFirstRecord(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		s.unhurried()
		s.Timing.Poll = 16 * time.Minute
		expired := s.World.Injected()
		s.running("a")
		s.sleep(time.Minute)
		s.put("k", "written under an iterator that will be too old")
		s.inSync(time.Hour)
		s.sleep(time.Hour)
		s.put("k", "and the same after the first record")
		s.inSync(time.Hour)
		if expired["iterator too old"] < 4 {
			s.failf("only %d iterators expired", expired["iterator too old"])
		}
	})
}

// TestH20_EveryIteratorExpires: for twenty minutes every read fails because its iterator is too
// old, even the newest. The loop neither spins nor ends, and continues at its position (I10).
func TestH20_EveryIteratorExpires(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		a := s.running("a")
		calls, until := 0, s.World.Now().Add(20*time.Minute)
		s.Source.Fault = func(op, _ string) error {
			if op == "GetRecords" && s.World.Now().Before(until) {
				calls++
				return model.Fail(op, cdc.Expired)
			}
			return nil
		}
		s.put("k", "v")
		s.sleep(20 * time.Minute)
		s.inSync(2 * time.Minute)
		if calls > 200 || s.Retries["read a shard (GetRecords)"] == 0 || a.Over {
			s.failf("%d reads, %d of them told of, in 20 minutes of expired iterators", calls, s.Retries["read a shard (GetRecords)"])
		}
	})
}

// TestH21_TrimmedUnderTheHorizon: a record is trimmed between the seek at the horizon and the first
// read, which the service may report. No change is lost by that, and a declared gap would be
// permanent.
func TestH21_TrimmedUnderTheHorizon(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		s.Source.PinHorizon = true
		s.put("k", "loaded")
		trimmed := false
		s.Source.Fault = func(op, _ string) error {
			if op == "GetRecords" && !trimmed {
				trimmed = true
				s.Source.Stream().Trim(s.World.Now())
			}
			return nil
		}
		s.running("a")
		s.put("l", "read")
		s.equal(time.Minute)
		if !trimmed || len(s.Gaps) > 0 {
			s.failf("gaps %v", s.Gaps)
		}
	})
}

// TestH22_ShardGoneBeforeItWasRead: "not found" does not mean "read to its end" (I5).
func TestH22_ShardGoneBeforeItWasRead(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		s.running("a")
		child := s.Source.Stream().Roll(s.only())
		child.Gone = true
		s.put("k", "never read")
		s.Source.Stream().Roll(child)
		s.gap(5*time.Minute, "not found")
		if state := s.state(child); state != string(checkpoint.Gap) {
			s.failf("the shard that is gone is %s", state)
		}
		s.readsOn(2*time.Minute, "k", "l")
	})
}

// TestH22_WorkerGoneBetweenAGapAndItsRaise: the worker that found the gap wrote it to the shard's
// row and died before it could raise the generation. The next coordinator finds the row and
// declares the gap (I5).
func TestH22_WorkerGoneBetweenAGapAndItsRaise(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		a := s.running("a")
		s.Watch = func(table, key string, _, after *model.Row) {
			if table != model.StateTable || !strings.HasPrefix(key, "default/shard/") {
				return
			}
			if recordOf[shardRecord](after).State == checkpoint.Gap {
				s.Watch = nil
				a.Kill()
			}
		}
		child := s.Source.Stream().Roll(s.only())
		child.Gone = true
		s.put("k", "never read")
		s.Source.Stream().Roll(child)
		s.until(5*time.Minute, "the gap is found", a.Dead)
		if len(s.Gaps) > 0 || s.State().NeedsLoad {
			s.failf("the gap is declared by a worker that is gone")
		}
		s.Start("b")
		s.gap(5*time.Minute, "not found")
		s.readsOn(2*time.Minute, "k", "l")
	})
}

// TestH23_OutageOfAboutADay: an outage of 23 h 50 min loses nothing. One of 24 h 10 min loses
// changes, and a gap is declared (I5, I10).
func TestH23_OutageOfAboutADay(t *testing.T) {
	for _, long := range []bool{false, true} {
		play(t, 10, 1, func(s *scene) {
			a := s.running("a")
			s.put("k", "read")
			s.inSync(time.Minute)
			s.stop(a)
			s.put("l", "first after the outage began")
			if long {
				s.sleep(24*time.Hour + 10*time.Minute)
				s.Start("b")
				s.gap(5*time.Minute, "trimmed")
				return
			}
			s.sleep(23*time.Hour + 50*time.Minute)
			s.Start("b")
			s.inSync(5 * time.Minute)
		})
	}
}

// TestH24_StreamReplaced: the stream is disabled and enabled again while a worker runs. No stream
// has the changes in between. The new stream's sequence numbers begin below the old one's, and its
// changes are still applied (I1, I5).
func TestH24_StreamReplaced(t *testing.T) {
	play(t, 20, 2, func(s *scene) {
		for i := range 10 {
			s.put(fmt.Sprint(i), "v")
		}
		s.running("a")
		for i := range 300 {
			s.put(fmt.Sprint(i%10), fmt.Sprint("v", i))
		}
		if s.World.Rand().IntN(2) == 0 {
			s.inSync(time.Minute) // otherwise part of the old stream is unread when it is replaced
		}
		s.Source.DisableStream()
		s.put("1", "in no stream")
		if s.World.Rand().IntN(2) == 0 {
			s.gap(5*time.Minute, "disabled")
		}
		s.Source.EnableStream(2)
		s.gap(5*time.Minute, "new stream")
		s.readsOn(time.Minute, "1", "2", "3", "4")
		for _, shard := range s.Shards() {
			if shard.Label != s.Source.Stream().Label && !shard.Finished() {
				s.failf("shard %s of the old stream is %s", shard.ID, shard.State)
			}
		}
	})
}

// TestH68_LedgerLost: the state table is emptied or set back, under a target that is full of
// versions. The new ledger begins above them and marks the table as needing a load. Otherwise every
// write would be rejected as stale while everything seems fine (I5).
func TestH68_LedgerLost(t *testing.T) {
	play(t, 30, 1, func(s *scene) {
		s.Timing.List = 5 * time.Second
		a := s.running("a")
		backup := s.Target.Snapshot(model.StateTable)
		// Generations rise faster than minutes pass, so the number of minutes does not exceed them.
		for range 5 {
			gaps := len(s.Gaps)
			s.Source.EnableStream(1)
			s.until(time.Minute, "another gap", func() bool { return len(s.Gaps) > gaps })
		}
		for i := range 5 {
			s.put(fmt.Sprint(i), "in the highest generation")
		}
		s.equal(time.Minute)
		s.stop(a)
		s.Gaps = nil
		if s.World.Rand().IntN(2) == 0 {
			s.LoseLedger()
		} else {
			s.Target.Restore(model.StateTable, backup)
		}
		s.Start("b")
		s.gap(time.Minute, "another ledger")
		s.readsOn(time.Minute, "0", "1", "2", "3", "4")
	})
}

// TestH68_LedgerLostWhileRunning: a worker whose ledger disappears must not continue as if it were
// new.
func TestH68_LedgerLostWhileRunning(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		a := s.running("a")
		s.LoseLedger()
		s.until(2*time.Minute, "the worker ends", func() bool { return a.Over })
		if !errors.Is(a.Err, checkpoint.ErrLedgerExchanged) {
			s.failf("the worker ended with %v", a.Err)
		}
	})
}

// TestH69_TargetLostOrRestored: the target is recreated, or restored from a backup, while the
// ledger says that everything is applied (I5).
func TestH69_TargetLostOrRestored(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		s.put("k", "in the backup")
		a := s.running("a")
		s.inSync(0)
		saved := s.backUpTarget()
		s.sleep(3 * time.Minute)
		s.put("k", "not in the backup")
		s.inSync(time.Minute)
		restart := s.World.Rand().IntN(2) == 0
		if restart {
			s.stop(a)
		}
		if s.World.Rand().IntN(2) == 0 {
			s.LoseTarget()
		} else {
			s.RestoreTarget(saved)
		}
		if restart {
			s.Start("b")
		}
		s.gap(3*time.Minute, "the target table was")
		s.readsOn(time.Minute, "k", "l")
	})
}

// TestH69_TargetLostDuringTheCopy: the target is recreated between the coordinator's last check of
// the witness and the end of the copy. The table must never count as loaded.
func TestH69_TargetLostDuringTheCopy(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		for i := range 30 {
			s.put(fmt.Sprint(i), "copied")
		}
		s.Timing.List = time.Hour
		s.Start("a", func(o *engine.Options) { o.Tables[0].Limits.RowsPerSecond = perSecond(1) })
		s.until(5*time.Minute, "the copy has begun", func() bool { return len(s.Target.Rows("orders")) > 10 })
		s.LoseTarget()
		// The fence rejects the rest of the copy, so the coordinator's next check finds the loss.
		s.until(s.Timing.List+10*time.Minute, "the loss is found", func() bool {
			if s.State().Loaded() {
				s.failf("the table is loaded, and %d rows are there", len(s.Target.Rows("orders")))
			}
			return s.State().NeedsLoad
		})
		s.gap(time.Second, "the target table was")
	})
}

// TestH69_WorkerGoneWithItsClaim: the worker that found the target lost dies with the write that
// assigns the new witness to its ledger. The gap must be declared before that, because to the next
// worker witness and ledger seem to belong together (I5).
func TestH69_WorkerGoneWithItsClaim(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		s.put("k", "lost with the target")
		a := s.running("a")
		s.inSync(0)
		s.sleep(3 * time.Minute)
		s.Watch = func(table, row string, _, _ *model.Row) {
			if table == "orders" && row == s.Mapping.WitnessKey() {
				s.Watch = nil
				a.Kill()
			}
		}
		s.LoseTarget()
		s.until(5*time.Minute, "the worker goes with its claim", a.Dead)
		s.Start("b")
		s.gap(5*time.Minute, "the target table was")
		s.readsOn(2*time.Minute, "k", "l")
	})
}

// TestH62_ViewTypeChangedWhileRunning: the new stream has no images. The worker ends. It must not
// treat a missing image as a missing item.
func TestH62_ViewTypeChangedWhileRunning(t *testing.T) {
	for _, view := range []string{"KEYS_ONLY", "OLD_IMAGE"} {
		play(t, 10, 1, func(s *scene) {
			s.put("k", "v")
			a := s.running("a")
			s.inSync(time.Minute)
			s.Source.View = view
			s.Source.EnableStream(1)
			s.put("k", "w")
			var unusable *engine.StreamError
			s.until(3*time.Minute, "the worker ends", func() bool { return a.Over })
			if !errors.As(a.Err, &unusable) || unusable.View != view {
				s.failf("the worker ended with %v", a.Err)
			}
			if s.value("k") != "v" || s.Parked() > 0 {
				s.failf("the row holds %q after a stream without images, %d items are parked", s.value("k"), s.Parked())
			}
		})
	}
}

// TestH75_ShownOpenAfterItWasRead: listings show a shard as open for hours after it was read to its
// end, and do not show its child. Only the page without a next iterator ends a shard. The child's
// first changes are trimmed unread (I5).
func TestH75_ShownOpenAfterItWasRead(t *testing.T) {
	t.Parallel()
	play(t, 8, 1, func(s *scene) {
		a := s.running("a")
		s.put("k", "before")
		s.inSync(time.Minute)
		parent := s.only()
		child := s.Source.Stream().Roll(parent)
		parent.ShownOpenUntil = s.World.Now().Add(3 * time.Hour)
		child.ListedFrom = parent.ShownOpenUntil
		s.put("lost", "first in the child")
		s.until(5*time.Minute, "parent done", func() bool { return s.state(parent) == string(checkpoint.Done) })
		s.sleep(2 * time.Hour)
		s.stop(a)
		s.sleep(22*time.Hour + 30*time.Minute)
		s.put("k", "after")
		s.Start("b")
		s.gap(5*time.Minute, "may be lost")
		s.readsOn(time.Minute, "k", "lost")
	})
}
