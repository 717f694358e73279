package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// TestEndTellsACleanStopFromAnAbruptOne: after an error that leaves ledger and target ours, leases are released; after one that
// does not, nothing more is written (H46).
func TestEndTellsACleanStopFromAnAbruptOne(t *testing.T) {
	for _, c := range []struct {
		err    error
		halts  bool
		abrupt bool
	}{
		{nil, false, false},
		{errors.New("passes"), false, false},
		{checkpoint.ErrLeaseLost, false, false},
		{&sink.BadItem{Source: "Orders", Reason: "no"}, true, false},
		{sink.ErrParkedLimit, true, false},
		{&StreamError{Table: "Orders"}, true, false},
		{&KeyError{Table: "Orders"}, true, false},
		{checkpoint.ErrMappingChanged, true, false},
		{checkpoint.ErrClusterChanged, false, true},
		{&SourceError{Table: "Orders"}, false, true},
		{checkpoint.ErrLedgerExchanged, false, true},
		{checkpoint.ErrForeignPipeline, false, true},
		{fmt.Errorf("row: %w", checkpoint.ErrFormat), false, true},
	} {
		var halted error
		parts := &common{halt: func(err error) { halted = err }}
		got := parts.end(c.err)
		if (halted != nil) != c.halts || (got != nil) != c.abrupt {
			t.Errorf("%v: halted with %v, returned %v", c.err, halted, got)
		}
	}
}

// A stop ends the wait between two attempts of what it may leave undone: waits come to most of a minute, which is longer than the grace, and leases would stay
// behind.
func TestAStopEndsAWait(t *testing.T) {
	listed(t, &pagedStream{}, func(ctx context.Context, k *rig, _ checkpoint.TableState) {
		failure, attempts := errors.New("no"), 0
		stop, cancel := task.WithTimeout(ctx, 10*time.Minute)
		defer cancel()
		err := k.table().retry(lifecycle{drain: stop, work: ctx}, "list the stream", func(context.Context) error { attempts++; return failure })
		if now := task.Mono(ctx); !errors.Is(err, failure) || now > 10*time.Minute || attempts < 10 {
			t.Errorf("ended after %s and %d attempts with %v", now, attempts, err)
		}
	})
}

// What is found out about ledger and target while a stop is under way is told all the same: whoever starts the next process must know.
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
	err = Run(ctx, Options{
		Ledger: ledger, Floors: &Floors{}, Database: dropped{}, Tables: []Table{{Mapping: ordersMapping(t)}},
		Witness: func(string) checkpoint.Store { return &checkpointtest.Memory{} }, // the keeper may come first
	})
	if !errors.Is(err, checkpoint.ErrLedgerExchanged) {
		t.Errorf("a stop in which the ledger was exchanged ended with %v", err)
	}
}
