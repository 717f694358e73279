package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// clusterTime bounds one question for the cluster. Google's admin client repeats a question that the control plane does not answer until its
// context ends, without a word.
const clusterTime = 20 * time.Second

// watchCluster asks which cluster the target is, at once and then every Timing.List, until stop ends. It fails when that is another one than before
// (H46).
//
// It is a task of its own, and not a step of the keepers: they may read, and must list shards, however long the control plane, which is another service
// than the one that takes writes, does not answer.
func (t *table) watchCluster(stop context.Context) error {
	for stop.Err() == nil {
		err := t.retry(stop, "ask for the cluster of the target", t.checkCluster)
		if err != nil && stop.Err() == nil {
			return t.end(err)
		}
		_ = task.Sleep(stop, t.Timing.List)
	}
	return nil
}

func (t *table) checkCluster(ctx context.Context) error {
	limited, cancel := task.WithTimeout(ctx, clusterTime)
	defer cancel()
	cluster, err := t.Cluster(limited)
	if err != nil {
		if limited.Err() != nil && ctx.Err() == nil {
			return fmt.Errorf("no answer within %s: %w", clusterTime, err)
		}
		return err
	}
	return t.Ledger.CheckCluster(ctx, cluster)
}
