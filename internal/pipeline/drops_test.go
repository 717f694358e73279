package pipeline

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// passing is a database whose table is missing for a while.
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

// A running worker notices within 15 seconds that its table was dropped, or exists again, whenever
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
				if err != nil || len(rows) != 1 || strings.Contains(string(rows[0].Data), engine.GoneReason) != want {
					t.Errorf("dropped at %s, deleting %t: at %s, want it known %t: %s, %v", db.from, deleting, at, want, rows[0].Data, err)
				}
			}
		}
	}
}
