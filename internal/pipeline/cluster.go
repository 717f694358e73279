package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// clusterTime bounds one request for the cluster. If the control plane does not answer, Google's
// admin client silently retries until its context ends.
const clusterTime = 20 * time.Second

// NoticeTime is how long a worker takes to notice that it is routed to another cluster, if the
// control plane answers.
const NoticeTime = engine.ListEvery + clusterTime

// clusterWatch checks that the target stays in one cluster.
type clusterWatch struct {
	*engine.Common // belongs to no table
	ask            func(ctx context.Context) (string, error)
}

// run reads the target's cluster, at once and then every Timing.List, until a drain begins. It
// fails if the cluster has changed (H46).
//
// It is a task of its own and not a step of the coordinators, because these must keep listing
// shards however long the control plane does not answer. The control plane is another service than
// the one that accepts writes.
func (w *clusterWatch) run(life engine.Lifecycle) error {
	for !life.Draining() {
		err := w.Retry(life, "read the cluster of the target", w.check)
		if err != nil && !life.Draining() {
			return w.End(err)
		}
		_ = task.Sleep(life.Drain, w.Timing.List)
	}
	return nil
}

func (w *clusterWatch) check(ctx context.Context) error {
	limited, cancel := task.WithTimeout(ctx, clusterTime)
	defer cancel()
	cluster, err := w.ask(limited)
	if err != nil {
		if limited.Err() != nil && ctx.Err() == nil {
			return fmt.Errorf("no answer within %s: %w", clusterTime, err)
		}
		return err
	}
	return w.Ledger.CheckCluster(ctx, cluster)
}
