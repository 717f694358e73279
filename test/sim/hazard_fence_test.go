package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// ledgerTarget is what the ledger holds of a target table.
func ledgerTarget(s *scene, table string) (checkpoint.Target, bool, error) {
	ledger, err := s.Ledger(s.ctx)
	if err != nil {
		return checkpoint.Target{}, false, err
	}
	return ledger.Target(s.ctx, table)
}

// familyOf is the family of a number of the scene's ledger.
func familyOf(s *scene, n uint64) string {
	ledger, err := s.Ledger(s.ctx)
	if err != nil {
		s.failf("%v", err)
		return ""
	}
	return sink.FenceFamily(ledger.ID(), n)
}

// lateAfterTheFence plays a put that the network keeps for an hour. Meanwhile its item is removed,
// the fence is raised and the number before it dropped, if that is allowed, and nothing of the item
// is left in the target, not even the tombstone that would refuse it. It returns with the row as it
// is after that hour.
func lateAfterTheFence(s *scene, allowed bool) *model.Row {
	s.Target.Protected = !allowed
	s.running("a")
	s.route("k", after(time.Hour))
	s.put("k", "v")
	s.until(2*time.Minute, "written by its repetition", func() bool { return s.value("k") == "v" })
	s.del("k")
	s.inSync(2 * time.Minute)
	if err := s.drive(s.ctx, "driver"); err != nil {
		s.failf("the fence is not raised: %v", err)
	}
	for range 100 {
		s.Target.Collect("orders", sink.GoneFamily, 0)
	}
	s.until(time.Minute, "nothing is left of the row", func() bool { return s.row("k") == nil })
	s.put("other", "v") // under the new number
	s.sleep(time.Hour)
	return s.row("k")
}

// TestH35_ALateRequestAfterTheFence: what the guard cannot refuse, because nothing is left to
// compare it with, the fence does.
func TestH35_ALateRequestAfterTheFence(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		if row := lateAfterTheFence(s, true); row != nil {
			s.failf("an item of before the fence is there again: %s", row)
		}
		s.inSync(time.Minute)
	})
}

// TestH35_WithoutAFenceALateRequestLands: where none can be kept the same request makes a row that
// no item has, which is what `fence: withheld` says.
func TestH35_WithoutAFenceALateRequestLands(t *testing.T) {
	play(t, 5, 1, func(s *scene) {
		if row := lateAfterTheFence(s, false); row == nil {
			s.failf("the request did not land: what keeps it out, and is the scene beside this one blind?")
		}
		target, found, err := ledgerTarget(s, "orders")
		if err != nil || !found || target.Withheld == "" || target.Fence != 0 {
			s.failf("the ledger says %+v, %v", target, err)
		}
	})
}

// TestH27_ALatePutAfterATombstoneAndALoad: a put that the network keeps for two hours comes when not
// even the tombstone of its item is left. The load that was begun meanwhile has raised the fence,
// and dropped the number of the put before its sweep.
func TestH27_ALatePutAfterATombstoneAndALoad(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		s.running("a")
		s.route("k", after(2*time.Hour))
		s.put("k", "v")
		s.until(2*time.Minute, "written by its repetition", func() bool { return s.value("k") == "v" })
		s.del("k")
		s.put("stays", "v")
		s.inSync(2 * time.Minute)
		s.redo()
		for range 100 {
			s.Target.Collect("orders", sink.GoneFamily, 0)
		}
		s.until(time.Minute, "nothing is left of the row", func() bool { return s.row("k") == nil })
		s.sleep(2 * time.Hour)
		if row := s.row("k"); row != nil {
			s.failf("an item that is gone is there again: %s", row)
		}
		s.equal(time.Minute)
	})
}

// TestH108_ARestartCreatesNoDroppedFence: a worker that begins while its ledger names a family that
// is gone, as one does that was set back, does not create it again: the coordinator raises another
// number.
func TestH108_ARestartCreatesNoDroppedFence(t *testing.T) {
	play(t, 10, 1, func(s *scene) {
		a := s.running("a")
		s.put("k", "v")
		s.inSync(2 * time.Minute)
		s.stop(a)
		before, _, err := ledgerTarget(s, "orders")
		target := model.Target{Bigtable: s.Target}
		if failed := target.DropFamily(s.ctx, "orders", familyOf(s, before.Fence)); failed != nil || err != nil {
			s.failf("%v, %v", failed, err)
		}
		s.Start("b")
		s.put("k", "w")
		s.inSync(5 * time.Minute)
		now, _, err := ledgerTarget(s, "orders")
		families, failed := target.ListFamilies(s.ctx, "orders")
		if err != nil || failed != nil || now.Fence <= before.Fence || slices.Contains(families, familyOf(s, before.Fence)) {
			s.failf("%+v after %+v, families %v, %v, %v", now, before, families, err, failed)
		}
	})
}
