package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// ledgerTarget returns the ledger's record of a target table.
func ledgerTarget(s *scene, table string) (checkpoint.Target, bool, error) {
	ledger, err := s.Ledger(s.ctx)
	if err != nil {
		return checkpoint.Target{}, false, err
	}
	return ledger.Target(s.ctx, table)
}

// familyOf returns the family of a fence number in the scene's ledger.
func familyOf(s *scene, n uint64) string {
	ledger, err := s.Ledger(s.ctx)
	if err != nil {
		s.failf("%v", err)
		return ""
	}
	return sink.FenceFamily(ledger.ID(), n)
}

// lateAfterTheFence plays a put that the network delays for an hour. Meanwhile its item is removed,
// the fence is raised and, if allowed, its earlier number is dropped. Nothing of the item is left
// in the target, not even the tombstone that would reject the put. The function returns the row
// after that hour.
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

// TestH35_ALateRequestAfterTheFence: the guard cannot reject this request, because nothing is left
// to compare it with. The fence rejects it.
func TestH35_ALateRequestAfterTheFence(t *testing.T) {
	play(t, 20, 1, func(s *scene) {
		if row := lateAfterTheFence(s, true); row != nil {
			s.failf("an item of before the fence is there again: %s", row)
		}
		s.inSync(time.Minute)
	})
}

// TestH35_WithoutAFenceALateRequestLands: without a fence the same request creates an orphan row.
// `fence: withheld` warns of that.
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

// TestH27_ALatePutAfterATombstoneAndALoad: the network delays a put for two hours, until not even
// its item's tombstone is left. A load that began meanwhile has raised the fence, and dropped the
// put's number before its sweep.
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

// TestH108_ARestartCreatesNoDroppedFence: a worker starts while its ledger names a dropped family,
// as a restored ledger does. It does not create the family again. The coordinator raises another
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
