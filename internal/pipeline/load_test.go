package pipeline

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// listedOnce is a stream of one shard.
type listedOnce struct{ enginetest.QuietShard }

func (listedOnce) ListPage(ctx context.Context, _, _ string) (cdc.ListingPage, error) {
	return cdc.ListingPage{Shards: []cdc.Shard{{ID: "s"}}, At: task.Now(ctx)}, nil
}

// TestH13_AListingIsNotedAfterItsShards: a recorded listing says that all its shards have rows. A
// run with Once relies on that to see that nothing follows a shard. The coordinator may end between
// the two writes.
func TestH13_AListingIsNotedAfterItsShards(t *testing.T) {
	m := enginetest.OrdersMapping(t)
	var order []string
	store := &checkpointtest.Memory{OnSwap: func(_ context.Context, key string, execute func() bool) (bool, error) {
		if parts := strings.Split(key, "/"); parts[1] == "shard" || parts[1] == "open" {
			order = append(order, parts[1])
		}
		return execute(), nil
	}}
	play(t, store, 10*time.Second, engine.Options{
		Database: enginetest.Streaming{}, Writer: sink.NewWriter(sink.Options{Table: enginetest.Targets{}, InFlight: 16}),
		Open:    func(string) cdc.Source { return listedOnce{} },
		Witness: func(string) checkpoint.Store { return &checkpointtest.Memory{} },
		Tables:  []engine.Spec{{Mapping: m}},
	}, func(context.Context, *checkpoint.Ledger) error { return nil })
	if len(order) < 2 || order[0] != "shard" {
		t.Errorf("rows are written in the order %q", order)
	}
}
