package follow

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// slowShard takes ten seconds for a page, and does not tell the time.
type slowShard struct{ enginetest.QuietShard }

func (s slowShard) Read(ctx context.Context, at cdc.Iterator) (cdc.Page, error) {
	if err := task.Sleep(ctx, 10*time.Second); err != nil {
		return cdc.Page{}, err
	}
	return s.QuietShard.Read(ctx, at)
}

// TestH75_AReadIsOfWhenItWasSent: what a page shows is of any moment since it was asked for.
// Coverage waits for an answer that tells the service's time: this worker's clock begins none.
func TestH75_AReadIsOfWhenItWasSent(t *testing.T) {
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) {
		began := task.Now(ctx)
		page, asked, err := k.Table().Read(engine.Until(ctx), &cdc.Reader{Source: slowShard{}, Shard: "s"}, cdc.Position{}, new(engine.PageSlot))
		sent := k.Table().TimeOf(ctx, asked)
		if err != nil || !sent.Equal(began) {
			t.Errorf("sent at %s, and not at %s, %v", sent, began, err)
		}
		var none checkpoint.Progress
		if at := Advance(none, page, time.Time{}, sent); !at.FirstRead.IsZero() || !at.ReadAt.Equal(began) {
			t.Errorf("%+v", at)
		} else if k.Timing.Commit = time.Second; assignerOf(k).follower.due(none, at, 0) {
			t.Error("a first read without a time is committed at once, again and again")
		}
	})
}
