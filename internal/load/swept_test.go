package load

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// A worker whose clock is an hour ahead begins with a sweep. What it writes is dated by the source's
// clock: a load that is asked for within that hour would be refused by rows of the future.
func TestASweepIsDatedByTheSource(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.inherited(ctx, "gone")
		s.sealed(ctx, 1)
		s.finish(ctx, checkpoint.PartProgress{})
		s.change(ctx, func(state *checkpoint.TableState) {
			state.Load.DoneAt = task.Now(ctx)
			state.Load.Sweep = checkpoint.Sweep{Pass: 1, Parts: 1, Approved: true, Ranges: []checkpoint.SweepRange{{Table: "orders"}}}
		})
		fresh, err := checkpoint.Open(ctx, s.store, "load", checkpoint.Options{Worker: "ahead", ID: "l"})
		s.check(err)
		s.Ledger, s.shop.behind = fresh, time.Hour
		s.Reset()
		s.check(s.work(ctx, time.Minute, false))
		now := task.Now(ctx).Add(-time.Hour).Unix()
		var gone []int64
		s.check(s.target.ReadRows(ctx, "orders", sink.Range{}, func(r sink.Row) error {
			var second int64
			_, err := fmt.Sscan(strings.TrimLeft(strings.Split(string(r.Gone), ".")[2], "0"), &second)
			gone = append(gone, second)
			return err
		}))
		if len(gone) != 1 || gone[0] > now || gone[0] < now-120 {
			t.Errorf("removed at %d, and the source's clock is at %d", gone, now)
		}
	})
}
