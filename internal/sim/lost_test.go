package sim

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// TestNobodyComesBackToALedgerThatIsExchanged: who is away until the ledger is exchanged stays away, whatever else happens to the crew.
func TestNobodyComesBackToALedgerThatIsExchanged(t *testing.T) {
	began := false
	Simulate(1, SimOptions{sabotage: func(s *simulation) {
		began = true
		s.loseLedger(nil)
		until := s.World.Elapsed() + s.Target.LateBy + 2*time.Minute
		s.allDown(event{}, time.Second)
		for _, m := range s.crew {
			if m.away < until {
				t.Errorf("%s is away until %s, and the ledger is exchanged at %s", m.worker.Name(), m.away, until)
			}
		}
		s.failures = append(s.failures, "over")
	}})
	if !began {
		t.Error("nothing was played")
	}
}

// TestTargetIsNotLostWhileItsWitnessCanBeRemade: of a loss that the first beat, executed again, would hide nobody could be told.
func TestTargetIsNotLostWhileItsWitnessCanBeRemade(t *testing.T) {
	var early, late int
	Simulate(1, SimOptions{sabotage: func(s *simulation) {
		s.Target.Twice = 0.01
		s.World.Go("loss", func(ctx context.Context) {
			until := func(ok func() bool) {
				for !ok() && task.Sleep(ctx, time.Second) == nil {
				}
			}
			until(func() bool { return s.Target.Row(s.Mapping.Table, s.Mapping.WitnessKey()) != nil })
			s.loseTarget(event{})
			early = s.World.Injected()["target lost"]
			until(func() bool { return !s.canBeRemade() })
			s.loseTarget(event{})
			late = s.World.Injected()["target lost"]
			s.failures = append(s.failures, "over")
		})
	}})
	if early != 0 || late != 1 {
		t.Errorf("the target was lost %d times while its witness was as it was made, and %d times until after that", early, late)
	}
}
