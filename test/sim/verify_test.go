package sim

import (
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// TestVerifiesTellTheTruth: whole systems are verified beside the load and after the faults, with
// damaged rows and reads that fail (I9, H54, H55, H56, H96).
func TestVerifiesTellTheTruth(t *testing.T) {
	total := happened{}
	for seed := range seedsOf(t, 12) {
		r := Simulate(720_000+seed, SimOptions{Verifies: true})
		if len(r.Failures) > 0 {
			t.Errorf("seed %d: %s", r.Seed, r.Failures[0])
		}
		total.add(r.Injected)
	}
	total.demand(t, "verify beside the load", "verify in peace", "row hurt", "verify finds: missing", "verify finds: different", "verify finds: extra", "read of a verify broken off")
}

// The checker detects a verify that overlooks a row, and one that reports a correct one.
func TestVerifyCheckerHasTeeth(t *testing.T) {
	w := virtual.NewWorld(1, time.Time{}, false)
	m := NewMigration(w, 1)
	m.Target.Hurt("orders", "r", &model.Row{Cols: []model.Column{{Family: "d", Qualifier: "v", Cells: []model.Cell{{Value: "1"}}}}})
	s := &simulation{Migration: m}
	if wrong := s.wrongRows(); !wrong["orders/r"] || len(wrong) != 1 {
		t.Errorf("a row without an item: %v", wrong)
	}
	undo := m.Target.Hurt("orders", "r", nil)
	if wrong := s.wrongRows(); len(wrong) != 0 {
		t.Errorf("no row: %v", wrong)
	}
	if undo(); !s.wrongRows()["orders/r"] {
		t.Error("what was hurt is not put back")
	}
}
