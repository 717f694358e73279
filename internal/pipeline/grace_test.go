package pipeline

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// A stop that was asked for while the ledger does not answer ends with the grace, and as a stop: clients tell a cancelled call in
// words of their own, which is no error of the process.
func TestStopEndsWithTheGrace(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	store := &checkpointtest.Memory{}
	ledger, err := checkpoint.Open(ctx, store, "grace", checkpoint.Options{Worker: "w", ID: "l"})
	if err != nil {
		t.Fatal(err)
	}
	store.OnRead = func(ctx context.Context, prefix string) error {
		if strings.Contains(prefix, "/keeper/") {
			stop() // the call is under way when the stop is asked for
			<-ctx.Done()
			return errors.New("rpc error: code = Canceled")
		}
		return nil
	}
	m := ordersMapping(t)
	err = Run(ctx, Options{
		Ledger: ledger, Floors: &Floors{}, Tables: []Table{{Mapping: m}}, Timing: Timing{Grace: time.Millisecond},
	})
	if err != nil {
		t.Errorf("a stop ended with %v", err)
	}
}
