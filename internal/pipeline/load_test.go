package pipeline

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Where a table begins to be followed cuts off, or is owed, only what no load brings.
func TestACopiedTableIsNotCut(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	began := at.Add(-checkpoint.Slack)
	for name, c := range map[string]struct {
		table      Table
		cut, since time.Time
	}{
		"copied":                   {Table{Copy: true}, time.Time{}, time.Time{}},
		"copied, and from now on":  {Table{Copy: true, FromNow: true}, time.Time{}, time.Time{}},
		"from now on":              {Table{FromNow: true}, began, time.Time{}},
		"as far as the stream has": {Table{}, time.Time{}, began},
	} {
		ledger, err := checkpoint.Open(t.Context(), &checkpointtest.Memory{}, "begin", checkpoint.Options{Worker: "w", ID: "l"})
		if err != nil {
			t.Fatal(err)
		}
		k := newRig(ledger, c.table)
		if s, err := reconcilerOf(k).begin(t.Context(), backfill.Description{At: at}, nil); err != nil || !s.Cut.Equal(c.cut) || !s.Since.Equal(c.since) {
			t.Errorf("%s: cut at %s, followed since %s, %v", name, s.Cut, s.Since, err)
		}
	}
}

// streaming is a table with a stream.
type streaming struct{ Database }

func (streaming) Describe(ctx context.Context, _ string) (backfill.Description, error) {
	return backfill.Description{Name: "Orders", StreamEnabled: true, StreamARN: "arn/L", StreamLabel: "L", ViewType: "NEW_AND_OLD_IMAGES", At: task.Now(ctx)}, nil
}

// listedOnce is a stream of one shard.
type listedOnce struct{ quietShard }

func (listedOnce) ListPage(ctx context.Context, _, _ string) (cdc.ListingPage, error) {
	return cdc.ListingPage{Shards: []cdc.Shard{{ID: "s"}}, At: task.Now(ctx)}, nil
}

// TestH13_AListingIsNotedAfterItsShards: a listing that is noted says that its shards have their
// rows, by which a run with Once tells that nothing follows a shard. A keeper may end between the
// two.
func TestH13_AListingIsNotedAfterItsShards(t *testing.T) {
	m := ordersMapping(t)
	var order []string
	store := &checkpointtest.Memory{OnSwap: func(_ context.Context, key string, execute func() bool) (bool, error) {
		if parts := strings.Split(key, "/"); parts[1] == "shard" || parts[1] == "open" {
			order = append(order, parts[1])
		}
		return execute(), nil
	}}
	play(t, store, 10*time.Second, Options{
		Database: streaming{}, Writer: sink.NewWriter(sink.Options{Table: targets{}, InFlight: 16}),
		Open:    func(string) cdc.Source { return listedOnce{} },
		Witness: func(string) checkpoint.Store { return &checkpointtest.Memory{} },
		Tables:  []Table{{Mapping: m}},
	}, func(context.Context, *checkpoint.Ledger) error { return nil })
	if len(order) < 2 || order[0] != "shard" {
		t.Errorf("rows are written in the order %q", order)
	}
}
