package pipeline

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// rolled is a stream whose only shard has ended and has a child. It counts the listings and the
// reads of the child.
type rolled struct {
	cdc.Source
	listed, read int
}

func (r *rolled) ListPage(ctx context.Context, _, _ string) (cdc.ListingPage, error) {
	r.listed++
	return cdc.ListingPage{Shards: []cdc.Shard{{ID: "s", Closed: true}, {ID: "c", Parent: "s"}}, At: task.Now(ctx)}, nil
}

func (r *rolled) Seek(_ context.Context, shard string, _ cdc.Position) (cdc.Iterator, error) {
	return cdc.Iterator(shard), nil
}

func (r *rolled) Read(ctx context.Context, at cdc.Iterator) (cdc.Page, error) {
	if ctx.Err() != nil {
		return cdc.Page{}, context.Cause(ctx)
	}
	if at == "s" {
		return cdc.Page{End: true}, nil
	}
	r.read++
	return cdc.Page{Next: at}, nil
}

// steady is a database whose tables all have the stream that begun put into the ledger.
type steady struct{ engine.Database }

func (steady) Describe(ctx context.Context, _ string) (backfill.Description, error) {
	if ctx.Err() != nil {
		return backfill.Description{}, context.Cause(ctx)
	}
	return backfill.Description{Name: "Orders", StreamARN: "arn/L", StreamLabel: "L", StreamEnabled: true, ViewType: "NEW_AND_OLD_IMAGES", At: task.Now(ctx)}, nil
}

// clusterOptions returns the options of a pipeline of one table, with a function that names the
// cluster.
func clusterOptions(t *testing.T, source cdc.Source, cluster func(context.Context) (string, error)) engine.Options {
	t.Helper()
	m := enginetest.OrdersMapping(t)
	witness := &checkpointtest.Memory{}
	return engine.Options{
		Tables: []engine.Spec{{Mapping: m}}, Database: steady{}, Writer: sink.NewWriter(sink.Options{}),
		Open:    func(string) cdc.Source { return source },
		Witness: func(string) checkpoint.Store { return witness },
		Cluster: cluster,
	}
}

// While Bigtable's control plane does not answer, its client retries until its context ends. Shards
// are still listed and read, the silence is reported, and a stop releases the coordinator lease.
func TestAControlPlaneThatIsSilent(t *testing.T) {
	source, store := &rolled{}, &checkpointtest.Memory{}
	told := 0
	o := clusterOptions(t, source, func(ctx context.Context) (string, error) { return "", task.NewEvent(ctx).Wait(ctx) })
	o.Events.Retry = func(_, step string, _ time.Duration, err error) {
		if strings.Contains(step, "cluster") && strings.Contains(err.Error(), "no answer within 20s") {
			told++
		}
	}
	play(t, store, time.Hour, o, begun)
	if source.listed < 60 || source.read < 1200 || told < 60 {
		t.Errorf("in an hour shards were listed %d times, the child was read %d times, and that the cluster cannot be told was told %d times", source.listed, source.read, told)
	}
	rows, err := store.Read(context.Background(), "outage/keeper/")
	if err != nil || len(rows) != 1 || strings.Contains(string(rows[0].Data), `"owner":"w"`) {
		t.Errorf("the coordinator lease after the stop: %v, %v", rows, err)
	}
}

// H46: a running worker ends within the time of a listing when the app profile routes to another
// cluster.
func TestH46_AnotherClusterEndsTheWorker(t *testing.T) {
	var ended error
	source, asked := &rolled{}, 0
	o := clusterOptions(t, source, func(context.Context) (string, error) {
		if asked++; asked > 3 {
			return "c2", nil
		}
		return "c1", nil
	})
	runs(t, &checkpointtest.Memory{}, time.Hour, o, begun, func(ctx context.Context, err error) {
		ended = err
		if now := task.Mono(ctx); now > 4*time.Minute+2*time.Second { // at most one pass later
			t.Errorf("ended after %s", now)
		}
	})
	if !errors.Is(ended, checkpoint.ErrClusterChanged) {
		t.Errorf("ended by %v", ended)
	}
}
