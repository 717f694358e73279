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

// All tables together are described ten times a second at the most.
func TestGlancesOfManyTables(t *testing.T) {
	for tables, want := range map[int]time.Duration{0: 10 * time.Second, 1: 10 * time.Second, 100: 10 * time.Second, 300: 30 * time.Second, 1000: 100 * time.Second} {
		if got := glanceAfter(tables); got != want {
			t.Errorf("%d tables: each every %s, want %s", tables, got, want)
		}
	}
}

// ended is a stream that is over.
type ended struct{ cdc.Source }

func (ended) ListPage(context.Context, string, string) (cdc.ListingPage, error) {
	return cdc.ListingPage{Ended: true}, nil
}

// The end of a stream makes the next complete pass due: the table may be dropped, however many
// others there are. A pass that finds nothing new is not repeated at once.
func TestTheEndOfAStreamIsLookedAt(t *testing.T) {
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, state checkpoint.TableState) {
		k.Open, k.Timing = func(string) cdc.Source { return ended{} }, engine.Timing{}.OrDefault(k.Ledger.Lease())
		reconcilerOf(k).began, reconcilerOf(k).last = true, task.Mono(ctx)
		for _, step := range []struct {
			passed  time.Duration
			dropped bool
			want    bool
		}{{0, false, false}, {9 * time.Second, false, false}, {time.Second, true, false}, {0, false, true}} {
			reconcilerOf(k).dropped, reconcilerOf(k).soon = step.dropped, false
			err := errors.Join(task.Sleep(ctx, step.passed), reconcilerOf(k).children(engine.Until(ctx), state, lineage{awaiting: []string{"s"}}))
			if got := reconcilerOf(k).due(ctx); err != nil || got != step.want {
				t.Errorf("%+v: due %t, %v", step, got, err)
			}
		}
	})
}

// A glance that fails says nothing: a table that cannot be described was not dropped, and one that
// was dropped does not exist again.
func TestAGlanceThatFails(t *testing.T) {
	enginetest.Listed(t, &enginetest.PagedStream{}, func(ctx context.Context, k *enginetest.Rig, _ checkpoint.TableState) {
		for _, dropped := range []bool{false, true} {
			reconcilerOf(k).database, reconcilerOf(k).dropped = enginetest.Answering{Err: &cdc.Error{Reason: cdc.Throttled, Err: errors.New("slow down")}}, dropped
			if err := task.Sleep(ctx, glanceEvery); err != nil {
				t.Error(err)
			}
			if reconcilerOf(k).glance(ctx); reconcilerOf(k).soon || reconcilerOf(k).described != task.Mono(ctx) {
				t.Errorf("dropped %t: %t, described at %s", dropped, reconcilerOf(k).soon, reconcilerOf(k).described)
			}
		}
	})
}
