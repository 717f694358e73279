package pipeline

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// narrow is a steady database whose stream now carries only keys.
type narrow struct{ steady }

func (n narrow) Describe(ctx context.Context, table string) (backfill.Description, error) {
	d, err := n.steady.Describe(ctx, table)
	d.ViewType = "KEYS_ONLY"
	return d, err
}

// TestH62_ACoordinatorEndsTheProcess: a coordinator's finding about a named table ends the process
// with its cause. The coordinator must not merely release its lease and continue, because nothing
// would report the cause.
func TestH62_ACoordinatorEndsTheProcess(t *testing.T) {
	var ended, left error
	o := clusterOptions(t, &rolled{}, nil)
	o.Cluster, o.Database = nil, narrow{}
	o.Events.CoordinatorLeft = func(_ string, err error) { left = err }
	store := &checkpointtest.Memory{}
	runs(t, store, time.Hour, o, begun, func(ctx context.Context, err error) {
		ended = err
		if now := task.Mono(ctx); now > time.Minute {
			t.Errorf("ended after %s", now)
		}
	})
	for _, err := range []error{ended, left} {
		var stream *engine.StreamError
		if !errors.As(err, &stream) || stream.View != "KEYS_ONLY" {
			t.Errorf("ended by %v", err)
		}
	}
}
