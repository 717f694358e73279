package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// clusterTime bounds one question for the cluster. Google's admin client repeats a question that
// the control plane does not answer until its context ends, without a word.
const clusterTime = 20 * time.Second

// NoticeTime is within how long a worker notices by itself that it is led to another cluster, if the
// control plane answers.
const NoticeTime = engine.ListEvery + clusterTime

// clusterWatch watches that the target stays in one cluster.
type clusterWatch struct {
	*engine.Common // of no table
	ask            func(ctx context.Context) (string, error)
}

// run asks which cluster the target is, at once and then every Timing.List, until a drain begins.
// It fails when that is another one than before (H46).
//
// It is a task of its own, and not a step of the coordinators: they may read, and must list shards,
// however long the control plane, which is another service than the one that takes writes, does not
// answer.
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
