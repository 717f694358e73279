package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A worker that follows a killed one reports once which leases it waits for, and how long; then it
// takes them over.
func TestASuccessorTellsWhatItWaitsFor(t *testing.T) {
	for name, killed := range map[string]bool{"after one that was killed": true, "the first": false} {
		store := &checkpointtest.Memory{}
		o := crowd(t, newBacklog(1), enginetest.Targets{}, "Orders")
		var told []string
		var taken, lease time.Duration
		var mono func() time.Duration
		o.Events.Waits = func(table string, of engine.Leases, leases int, wait time.Duration) {
			told = append(told, fmt.Sprintf("%s %s %d %s at %s", table, of, leases, wait, mono()))
		}
		o.Events.ShardTaken = func(string, string, uint64) { taken = mono() }
		prepare := func(ctx context.Context, l *checkpoint.Ledger) error {
			mono, lease = func() time.Duration { return task.Mono(ctx) }, l.Lease()
			if err := enginetest.Behind(1, "Orders")(ctx, l); err != nil || !killed {
				return err
			}
			gone, err := checkpoint.Open(ctx, store, "outage", checkpoint.Options{Worker: "gone", ID: "l"})
			if err != nil {
				return err
			}
			lease, err := gone.CoordinatorLease(ctx, "Orders")
			if err == nil {
				var k *checkpoint.Coordinator
				if k, err = gone.TakeCoordinatorLease(ctx, lease); err == nil {
					k.Abandon()
				}
			}
			shards, errShards := gone.Shards(ctx, "Orders")
			if err != nil || errShards != nil {
				return fmt.Errorf("%w, %w", err, errShards)
			}
			held, err := gone.Take(ctx, shards[0], nil)
			if err == nil {
				held.Abandon()
			}
			return err
		}
		runs(t, store, 3*time.Minute, o, prepare, func(_ context.Context, err error) {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		want := ""
		if killed {
			want = fmt.Sprintf("Orders %s 1 %s at 0s|Orders %s 1 %s at 0s", engine.OfCoordinator, lease, engine.OfShards, lease)
		}
		slices.Sort(told) // the coordinator lease and the shards are read concurrently
		if got := strings.Join(told, "|"); got != want {
			t.Errorf("%s: it tells %q, want %q", name, got, want)
		}
		if killed && taken < lease || !killed && taken > lease/2 || taken > 2*lease {
			t.Errorf("%s: the shard was taken after %s of a lease of %s", name, taken, lease)
		}
	}
}
