package pipeline

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// Applied reports durable changes and the rows into which they were folded. The ledger records the
// rate of changes a second, not of rows.
func TestWhatWasAppliedIsTold(t *testing.T) {
	var told [2]int // changes, rows
	rated := false
	store := &checkpointtest.Memory{}
	store.OnSwap = func(ctx context.Context, key string, execute func() bool) (bool, error) {
		done := execute()
		rows, err := store.Read(ctx, key)
		rated = rated || strings.Contains(key, "/shard/") && len(rows) == 1 && strings.Contains(string(rows[0].Data), `"rate":`)
		return done, err
	}
	o := crowd(t, newBacklog(500), enginetest.Targets{}, "Orders")
	o.Events.Applied = func(_ string, changes engine.Tally, rows int) {
		told[0], told[1] = told[0]+changes.Changes(), told[1]+rows
	}
	play(t, store, 3*time.Minute, o, enginetest.Behind(1, "Orders"))
	if told != [2]int{500, 500} || !rated {
		t.Errorf("%d changes in %d rows were told, and a rate %v", told[0], told[1], rated)
	}
}

// A followed table does not join again, however often tables are searched for. Two coordinators and
// two readers of one process would contend for it.
func TestATableJoinsOnce(t *testing.T) {
	o := clusterOptions(t, &rolled{}, nil)
	o.Cluster, o.DiscoverEvery = nil, time.Minute
	spec, looks, joined := o.Tables[0], 0, 0
	spec.Joined, o.Tables = true, nil
	o.Discover = func(_ context.Context, followed func(string) bool) (engine.Discovery, error) {
		if looks++; followed("Orders") != (looks > 1) {
			t.Errorf("look %d: it is followed %v", looks, followed("Orders"))
		}
		return engine.Discovery{Tables: []engine.Spec{spec}}, nil
	}
	o.Events.Joined = func(string) { joined++ }
	play(t, &checkpointtest.Memory{}, 10*time.Minute, o, begun)
	if looks < 10 || joined != 1 {
		t.Errorf("in %d looks it joined %d times", looks, joined)
	}
}
