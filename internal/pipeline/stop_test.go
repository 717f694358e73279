package pipeline

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// Findings about ledger and target during a stop are still reported, because the operator who
// starts the next process needs them.
func TestAStopDoesNotHideWhatIsFatal(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store := &checkpointtest.Memory{}
	ledger, err := checkpoint.Open(ctx, store, "fatal", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	store.OnRead = func(_ context.Context, prefix string) error {
		if strings.HasSuffix(prefix, "/pipeline") {
			stop()
			store.Clear()
		}
		return nil
	}
	err = Run(ctx, engine.Options{
		Ledger: ledger, Floors: &engine.Floors{}, Database: enginetest.Dropped{}, Tables: []engine.Spec{{Mapping: enginetest.OrdersMapping(t)}},
		Witness: func(string) checkpoint.Store { return &checkpointtest.Memory{} }, // the coordinator may come first
	})
	if !errors.Is(err, checkpoint.ErrLedgerExchanged) {
		t.Errorf("a stop in which the ledger was exchanged ended with %v", err)
	}
}
