package pipeline

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// TestH63_SilenceIsWithoutABreak: what may be otherwise for another worker counts, and what shows that the source has answered begins it anew.
func TestH63_SilenceIsWithoutABreak(t *testing.T) {
	failure := func(r cdc.Reason) error { return &cdc.Error{Op: "GetRecords", Reason: r, Err: errors.New("no")} }
	var s silence
	for i, step := range []struct {
		err  error
		now  time.Duration
		want time.Duration
	}{
		{failure(cdc.Unavailable), 10, 0},
		{failure(cdc.Denied), 13, 3},
		{failure(cdc.Malformed), 17, 7},
		{failure(cdc.Throttled), 20, 10}, // neither here nor there
		{failure(cdc.Denied), 21, 11},
		{errors.New("of the ledger"), 25, 0}, // the source has answered meanwhile
		{failure(cdc.Throttled), 27, 0},
		{failure(cdc.Throttled), 29, 0},
		{failure(cdc.Denied), 30, 0},
		{failure(cdc.Denied), 31, 1},
		{&sink.Error{Op: "CheckAndMutateRow", Reason: sink.Denied}, 40, 0}, // of the target, which every lease needs anyway
		{failure(cdc.Unavailable), 50, 0},
		{failure(cdc.Unavailable), 59, 9},
	} {
		if got := s.lasts(step.err, step.now); got != step.want {
			t.Errorf("step %d: %v lasts for %d, want %d", i, step.err, got, step.want)
		}
	}
}

// A keeper that leaves its seat because the source does not answer it stays away from it for a while: in a pass it might be the first again.
func TestH63_AYieldedSeatIsLeftToOthers(t *testing.T) {
	mapping := ordersMapping(t)
	listed(t, &pagedStream{}, func(ctx context.Context, k *rounds, _ checkpoint.TableState) {
		k.Mapping, k.Witness = mapping, func(string) checkpoint.Store { return &checkpointtest.Memory{} }
		k.Timing, k.Database = Timing{}.orDefault(k.Ledger.Lease()), &silentDatabase{asked: true}
		keeper, err := seated(ctx, k)
		if err != nil {
			t.Error(err)
			return
		}
		if rest, err := k.serve(ctx, keeper); err != nil || rest != k.respite() || rest <= 2*k.Timing.Pass {
			t.Errorf("it stays away for %s, %v", rest, err)
		}
		if seat, err := k.Ledger.Seat(ctx, "Orders"); err != nil || seat.Owner() != "" {
			t.Errorf("the seat is still %q's, %v", seat.Owner(), err)
		}
	})
}
