package sim

import (
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// TestH21_H64_AClockThatIsADayOff: the change at the position was trimmed. The clock of the worker
// that finds this is right, behind, or ahead of the service's. Exactly one gap is declared, and the
// remaining changes are read. Coverage uses the service's clock, so a worker's clock cannot cause a
// second gap (I5).
func TestH21_H64_AClockThatIsADayOff(t *testing.T) {
	for _, off := range []time.Duration{0, -48 * time.Hour, -24 * time.Hour, 24 * time.Hour, 48 * time.Hour} {
		play(t, 5, 1, func(s *scene) {
			a := s.running("a")
			s.put("k", "read")
			s.inSync(time.Minute)
			s.stop(a)
			s.put("lost", "never read")
			s.sleep(25 * time.Hour)
			s.put("k", "after the gap")
			before := s.State().Generation
			s.Start("b").Skew(off)
			s.gap(5*time.Minute, "trimmed")
			s.until(time.Minute, "the rest is read", func() bool { return s.value("k") == "after the gap" })
			s.readsOn(time.Minute, "k", "lost")
			s.sleep(time.Hour)
			if state := s.State(); len(s.Gaps) != 1 || state.GapCount != 1 || state.Generation <= before {
				s.failf("with a clock that is %s off: gaps %q, generation %d after %d", off, s.Gaps, state.Generation, before)
			}
		})
	}
}

// TestH64_OnceEndsWithAClockThatIsADayOff: a run with --once ends although its clock is a day
// behind and its shard was trimmed.
func TestH64_OnceEndsWithAClockThatIsADayOff(t *testing.T) {
	play(t, 5, 1, func(s *scene) {
		a := s.running("a")
		s.put("k", "read")
		s.inSync(time.Minute)
		s.stop(a)
		s.put("lost", "never read")
		s.sleep(25 * time.Hour)
		b := s.Start("b", func(o *engine.Options) { o.Once = true })
		b.Skew(-24 * time.Hour)
		s.until(5*time.Minute, "the run ends", func() bool { return b.Over })
		if b.Err != nil || len(s.Gaps) != 1 {
			s.failf("it ended with %v and gaps %q", b.Err, s.Gaps)
		}
	})
}

// TestH21_IdleShardIsNoGap: the last change of an idle shard is a day old and trimmed, and the
// shard was found empty for three hours after it. Nothing is lost, whether its reader stopped 21
// hours ago, or reads continuously and its iterator expires (I5).
func TestH21_IdleShardIsNoGap(t *testing.T) {
	for _, stopped := range []bool{true, false} {
		play(t, 2, 1, func(s *scene) {
			a := s.running("a")
			s.put("k", "read")
			s.inSync(time.Minute)
			s.sleep(3 * time.Hour)
			if stopped {
				s.stop(a)
			}
			caughtUp := s.World.Now()
			s.sleep(21*time.Hour + 5*time.Minute)
			if stopped {
				if at := positionTime(s); at.Before(caughtUp.Add(-time.Minute)) {
					s.failf("caught up at %s, and the position is of %s", caughtUp, at)
				}
				s.Start("b")
			} else {
				expire(s)
			}
			s.sleep(time.Minute)
			s.put("k", "after a day")
			s.inSync(2 * time.Minute)
			if at := positionTime(s); s.World.Now().Sub(at) > 5*time.Minute {
				s.failf("the position is of %s", at)
			}
		})
	}
}

// positionTime returns the time of the only shard's position in the ledger.
func positionTime(s *scene) time.Time {
	for _, row := range s.Shards() {
		if row.State == checkpoint.Reading {
			return row.PositionTime()
		}
	}
	return time.Time{}
}

// expire makes the next read fail as if its iterator were too old.
func expire(s *scene) {
	over := false
	s.Source.Fault = func(op, _ string) error {
		if op == "GetRecords" && !over {
			over = true
			return model.Fail(op, cdc.Expired)
		}
		return nil
	}
}
