package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// The hazards of this file concern the ledger: late, lost and repeated compare-and-sets, and owners
// that do not know that they lost their lease. The checkers examine each write: positions never
// move back, and nothing finished is undone.

// TestH44_LeaseTakenWithoutAnAnswer: every second compare-and-set of a shard's row is executed
// without an answer. The worker reads it back. So the shard has an owner immediately, who neither
// waits for the end of its own lease nor acquires it again (I6, I10).
func TestH44_LeaseTakenWithoutAnAnswer(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		s.routeLedger("shard/", func(n int) *model.Fate {
			if n%2 == 0 {
				return &model.Fate{Lose: true}
			}
			return nil
		})
		s.put("k", "v")
		s.Start("a")
		s.inSync(time.Minute)
		s.sleep(time.Minute)
		for i := range 20 {
			s.put("k", fmt.Sprint("v", i))
			s.sleep(s.upTo(3 * time.Second))
		}
		s.inSync(time.Minute)
		if epoch := s.Shards()[0].Epoch; epoch != 1 {
			s.failf("the shard was taken %d times", epoch)
		}
	})
}

// TestH45_LeaseLostAndTakenAgain: the ledger cannot be written for longer than a lease. So the
// worker loses its shard, and acquires it again when the ledger is back. Then the writes of its
// first lease are executed (I6).
func TestH45_LeaseLostAndTakenAgain(t *testing.T) {
	play(t, 30, 1, func(s *scene) {
		s.running("a")
		away := s.World.Now().Add(20*time.Second + s.upTo(20*time.Second))
		s.routeLedger("shard/", func(int) *model.Fate {
			if s.World.Now().Before(away) {
				return &model.Fate{Delay: away.Sub(s.World.Now()) + s.upTo(20*time.Second), Lose: true}
			}
			return nil
		})
		for i := range 60 {
			s.put(fmt.Sprint(i%5), fmt.Sprint("v", i))
			s.sleep(s.upTo(3 * time.Second))
		}
		s.inSync(2 * time.Minute)
		if epoch := s.Shards()[0].Epoch; epoch < 2 {
			s.failf("the lease was never lost")
		}
	})
}

// TestH85_LateCommitOfTheSameEpoch: a commit without an answer is retried and followed by others,
// up to the end of the shard. Then its first attempt is executed (I6).
func TestH85_LateCommitOfTheSameEpoch(t *testing.T) {
	play(t, 30, 1, func(s *scene) {
		s.running("a")
		s.Source.PageSize = 3
		s.routeLedger("shard/", func(n int) *model.Fate {
			if n%3 == 0 {
				return &model.Fate{Delay: s.upTo(30 * time.Second), Lose: true}
			}
			return nil
		})
		for i := range 30 {
			s.put(fmt.Sprint(i%5), fmt.Sprint("v", i))
			s.sleep(s.upTo(time.Second))
		}
		s.Source.Stream().Roll(s.only())
		s.put("k", "child")
		s.inSync(2 * time.Minute)
		s.sleep(time.Minute)
		s.inSync(0)
	})
}

// TestH70_RaiseWhileTheOldOwnerLives: the generation rises while the owner of a shard is paused
// with a page. It must not commit the page in the old generation, because the page's changes would
// be lost below the new generation's load (I1).
func TestH70_RaiseWhileTheOldOwnerLives(t *testing.T) {
	play(t, 30, 1, func(s *scene) {
		a := s.running("a")
		ledger, err := s.Migration.Ledger(s.ctx)
		if err != nil {
			s.failf("%v", err)
			return
		}
		// The pause is shorter than its leases, so only the raise keeps it from moving the
		// checkpoint.
		s.Target.Route = func(c model.Call) *model.Fate {
			if c.Op == "CheckAndMutateRow" {
				s.Target.Route = nil
				a.Pause(3 * time.Second)
			}
			return nil
		}
		before := s.State().Generation
		for i := range 20 {
			s.put(fmt.Sprint(i), "in the old generation")
		}
		s.sleep(time.Second + s.upTo(time.Second))
		if _, err := ledger.Raise(s.ctx, "Orders", before, checkpoint.DeclaredGap{Reason: "for the test"}, nil); err != nil {
			s.failf("%v", err)
		}
		s.sleep(10 * time.Second)
		s.equal(2 * time.Minute)
		after := s.State().Generation
		for i := range 20 {
			if v := held(s.row(fmt.Sprint(i))); after <= before || v < fmt.Sprintf("%08d", after) {
				s.failf("item %d is at version %s under generation %d", i, v, after)
			}
		}
	})
}
