package stream

import (
	"context"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// A table that can be followed again counts: --once waits for it, and the ledger says so.
func TestReadmittedTableCounts(t *testing.T) {
	ctx := context.Background()
	ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "readmitted", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	k := enginetest.NewRig(ledger, engine.Spec{Joined: true})
	if err := engine.Suspend(ctx, ledger, k.Events, "Orders", "why"); err != nil {
		t.Fatal(err)
	}
	k.Table().Tracker.SetSuspended(true)
	if err := reconcilerOf(k).unsuspend(ctx); err != nil || k.Table().Tracker.IsSuspended() {
		t.Errorf("the tracker says that it is suspended: %v, %v", k.Table().Tracker.IsSuspended(), err)
	}
	if state, _, err := ledger.Table(ctx, "Orders"); err != nil || state.Suspended.Reason != "" {
		t.Errorf("the ledger says that it is suspended: %+v, %v", state.Suspended, err)
	}
}
