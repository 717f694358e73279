package pipeline

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// passing is a database whose table is dropped for a while.
type passing struct {
	steady
	from, until time.Duration
	deleting    bool // it is being dropped for all that time
}

func (d passing) Describe(ctx context.Context, table string) (backfill.Description, error) {
	described, err := d.steady.Describe(ctx, table)
	if now := task.Mono(ctx); err != nil || now < d.from || now >= d.until {
		return described, err
	}
	if d.deleting {
		described.Status = "DELETING"
		return described, nil
	}
	return backfill.Description{}, &cdc.Error{Op: "DescribeTable", Reason: cdc.NotFound, Err: errors.New("no such table")}
}

// A worker that runs knows within 15 seconds that its table was dropped, or exists again, whenever
// its last complete pass was.
func TestADropIsKnownWithinSeconds(t *testing.T) {
	const soon = 15 * time.Second
	for _, after := range []time.Duration{5 * time.Second, 25 * time.Second, 55 * time.Second} {
		for _, deleting := range []bool{false, true} {
			db := passing{from: 3*time.Minute + after, until: 6*time.Minute + after, deleting: deleting}
			for at, want := range map[time.Duration]bool{db.from: false, db.from + soon: true, db.until + soon: false} {
				o, store := clusterOptions(t, &rolled{}, nil), &checkpointtest.Memory{}
				o.Cluster, o.Database = nil, db
				play(t, store, at, o, begun)
				rows, err := store.Read(t.Context(), "outage/table/Orders")
				if err != nil || len(rows) != 1 || strings.Contains(string(rows[0].Data), GoneReason) != want {
					t.Errorf("dropped at %s, deleting %t: at %s, want it known %t: %s, %v", db.from, deleting, at, want, rows[0].Data, err)
				}
			}
		}
	}
}

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
	listed(t, &pagedStream{}, func(ctx context.Context, k *rig, state checkpoint.TableState) {
		k.Open, k.Timing = func(string) cdc.Source { return ended{} }, Timing{}.orDefault(k.Ledger.Lease())
		reconcilerOf(k).began, reconcilerOf(k).last = true, task.Mono(ctx)
		for _, step := range []struct {
			passed  time.Duration
			dropped bool
			want    bool
		}{{0, false, false}, {9 * time.Second, false, false}, {time.Second, true, false}, {0, false, true}} {
			reconcilerOf(k).dropped, reconcilerOf(k).hasty = step.dropped, false
			err := errors.Join(task.Sleep(ctx, step.passed), reconcilerOf(k).children(until(ctx), state, []string{"s"}, map[string]bool{"s": true}))
			if got := reconcilerOf(k).due(ctx); err != nil || got != step.want {
				t.Errorf("%+v: due %t, %v", step, got, err)
			}
		}
	})
}

// A glance that fails says nothing: a table that cannot be described was not dropped, and one that
// was dropped does not exist again.
func TestAGlanceThatFails(t *testing.T) {
	listed(t, &pagedStream{}, func(ctx context.Context, k *rig, _ checkpoint.TableState) {
		for _, dropped := range []bool{false, true} {
			reconcilerOf(k).database, reconcilerOf(k).dropped = answering{err: &cdc.Error{Reason: cdc.Throttled, Err: errors.New("slow down")}}, dropped
			if err := task.Sleep(ctx, glanceEvery); err != nil {
				t.Error(err)
			}
			if reconcilerOf(k).glance(ctx); reconcilerOf(k).hasty || reconcilerOf(k).described != task.Mono(ctx) {
				t.Errorf("dropped %t: %t, described at %s", dropped, reconcilerOf(k).hasty, reconcilerOf(k).described)
			}
		}
	})
}
