package verify

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// A row is judged once everything is applied that was committed before it was looked at, and a little
// more: the source's clock may be ahead of what was heard of it. After the end of a stream nothing
// more comes.
func TestWhatIsAppliedBeforeASecondLook(t *testing.T) {
	err := virtual.NewWorld(1, enginetest.ListingsBegin, false).Run(time.Hour, func(ctx context.Context) {
		ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "verify", checkpoint.Options{Worker: "w", ID: "l"})
		if err != nil {
			t.Fatal(err)
		}
		at := task.Now(ctx)
		change := func(f func(s *checkpoint.TableState)) {
			if _, err := ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error { f(s); return nil }); err != nil {
				t.Fatal(err)
			}
		}
		change(func(s *checkpoint.TableState) { s.Generation, s.Adopted, s.Listed, s.Label = 2, 2, 2, "L" })
		if err := ledger.CreateShard(ctx, checkpoint.Shard{Source: "Orders", Label: "L", ID: "s", State: checkpoint.Reading, Hop: cdc.RootHop, Generation: 2,
			FirstRead: at, EventTime: at, AppliedTo: at}); err != nil {
			t.Fatal(err)
		}
		rig := enginetest.NewRig(ledger, engine.Spec{Mapping: enginetest.OrdersMapping(t)})
		v := enginetest.PartOf(rig, func(s *engine.Table) *Verifier { return NewVerifier(s, nil, func() int { return 1 }, &SumSlots{}) })
		for before, want := range map[time.Duration]bool{0: false, appliedSlack - 1: false, appliedSlack: true, time.Minute: true} {
			if applied, err := v.applied(ctx, at.Add(-before)); err != nil || applied != want {
				t.Errorf("%s before: applied %t, %v", before, applied, err)
			}
		}
		change(func(s *checkpoint.TableState) { s.StreamEnded = true })
		if applied, err := v.applied(ctx, at.Add(time.Hour)); err != nil || !applied {
			t.Errorf("after the end of the stream: applied %t, %v", applied, err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}
