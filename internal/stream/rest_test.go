package stream

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// A shard that is declared trimmed each time somebody begins it is reopened at once the first time,
// and then later and later: it cannot spend generations without end. Once a page of it was applied
// it is as any other.
func TestH64_AShardThatIsLostAgainAndAgainRests(t *testing.T) {
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) {
		if _, err := k.Table().Look(ctx); err != nil {
			t.Error(err)
		}
		k.Timing = k.Timing.OrDefault(k.Ledger.Lease())
		err := k.Ledger.CreateShard(ctx, checkpoint.Shard{Source: "Orders", StreamARN: "arn", Label: "label", ID: "s", State: checkpoint.Waiting,
			Hop: cdc.RootHop, Generation: 1})
		if err != nil {
			t.Error(err)
		}
		// seconds lets a coordinator look every second, while readers find the shard trimmed whenever
		// they can begin it, and counts how often that was.
		seconds := func(n int, reads bool) (gaps int) {
			for range n {
				k.Ledger.Heard(ctx, task.Now(ctx))
				if err := errors.Join(reconcilerOf(k).quickPass(engine.Until(ctx)), task.Sleep(ctx, time.Second)); err != nil {
					t.Fatal(err)
				}
				shards, err := k.Ledger.Shards(ctx, "Orders")
				if err != nil || len(shards) != 1 {
					t.Fatal(len(shards), err)
				}
				if shards[0].State != checkpoint.Waiting {
					continue
				}
				lease, err := k.Ledger.Take(ctx, shards[0], nil)
				if err == nil && reads {
					err = lease.Commit(ctx, checkpoint.Progress{FirstRead: task.Now(ctx)})
				}
				if err = errors.Join(err, lease.Declare(ctx, checkpoint.Trimmed, "trimmed")); err != nil {
					t.Fatal(err)
				}
				gaps++
			}
			return gaps
		}
		if gaps := seconds(3, false); gaps != 2 {
			t.Errorf("%d gaps in three seconds: the first one is not read on at once", gaps)
		}
		if gaps := seconds(3600, false); gaps < 8 || gaps > 14 {
			t.Errorf("%d gaps in an hour", gaps)
		}
		if gaps := seconds(660, true); gaps < 2 {
			t.Errorf("%d gaps: a shard of which pages are applied rests as well", gaps)
		}
	})
}
