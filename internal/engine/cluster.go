package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// clusterTime is the timeout of one request for the cluster. Without it, Google's admin client
// would silently retry while the control plane does not answer.
const clusterTime = 20 * time.Second

// NoticeTime is how long a worker takes to notice that it is routed to another cluster, if the
// control plane answers.
const NoticeTime = listEvery + clusterTime

// ClusterWatch checks that the app profile keeps routing to the same cluster of the target.
type ClusterWatch struct {
	*Retrier // a Retrier that belongs to no single table
	Ledger   *checkpoint.Ledger
	// Ask returns the cluster of the target; "" if that is unknown.
	Ask func(ctx context.Context) (string, error)
	// Every is the time between two requests. End ends the process with an error.
	Every time.Duration
	End   func(err error) error
}

// Run reads the target's cluster immediately, and then at intervals of Every until a drain begins.
// It ends the process if the cluster has changed (H46).
//
// It is a separate task and not a step of the coordinators. Coordinators must keep listing shards
// even while Bigtable's control plane does not answer. The control plane can fail while Bigtable
// still accepts writes.
func (w *ClusterWatch) Run(life Lifecycle) error {
	for !life.Draining() {
		err := w.Retry(life, "read the cluster of the target", w.check)
		if err != nil && !life.Draining() {
			return w.End(err)
		}
		_ = task.Sleep(life.Drain, w.Every)
	}
	return nil
}

func (w *ClusterWatch) check(ctx context.Context) error {
	limited, cancel := task.WithTimeout(ctx, clusterTime)
	defer cancel()
	cluster, err := w.Ask(limited)
	if err != nil {
		if limited.Err() != nil && ctx.Err() == nil {
			return fmt.Errorf("no answer within %s: %w", clusterTime, err)
		}
		return err
	}
	return w.Ledger.CheckCluster(ctx, cluster)
}
