package verify

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// A part that cannot be leased, here of a completed verify, releases its slot; otherwise this
// process could never again compute sums of any part.
func TestAPartThatIsNotTakenLeavesItsSlot(t *testing.T) {
	err := virtual.NewWorld(1, enginetest.ListingsBegin, false).Run(time.Hour, func(ctx context.Context) {
		ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "verify", checkpoint.Options{Worker: "w", ID: "l"})
		if err != nil {
			t.Fatal(err)
		}
		part := checkpoint.Part{Source: "Orders", Generation: 2, Number: 1, Phase: "verify-1", Total: 1}
		if _, err := ledger.TakePart(ctx, part); !errors.Is(err, checkpoint.ErrTaken) {
			t.Fatalf("it is taken: %v", err)
		}
		slots := &SumSlots{}
		rig := enginetest.NewRig(ledger, engine.Spec{Mapping: enginetest.OrdersMapping(t)})
		v := enginetest.PartOf(rig, func(s *engine.Table) *Verifier { return NewVerifier(s, nil, func() int { return 1 }, slots) })
		of := phase{Verifier: v, plan: verify.Plan{Way: verify.Quiet}}
		if !of.plan.Summing(1) {
			t.Fatal("the phase adds up no sums")
		}
		if _, _, err := of.Take(ctx, checkpoint.TableState{Source: "Orders", Verify: checkpoint.Verify{Phase: 1}}, part); !errors.Is(err, checkpoint.ErrTaken) || slots.taken.Load() != 0 {
			t.Errorf("%d slots are taken, %v", slots.taken.Load(), err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
