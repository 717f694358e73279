package cutover

import (
	"context"
	"errors"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// sameCluster fails with checkpoint.ErrClusterChanged where the app profile routes to another cluster
// than the ledger's (H46): rows may be missing there, and the record of the cutover may be an older
// one. A failover decides then.
func (v *drive) sameCluster(ctx context.Context) error {
	if v.Cluster == nil {
		return nil
	}
	limited, cancel := task.WithTimeout(ctx, v.settings.Hook)
	defer cancel()
	cluster, err := v.Cluster(limited)
	if err != nil {
		return err
	}
	return v.Ledger.CheckCluster(ctx, cluster)
}

// mayCall refuses to call a hook in another cluster. An application that is frozen is not left so
// because the control plane of Bigtable does not answer; one that writes is not frozen.
func (v *drive) mayCall(ctx context.Context, hook string) error {
	err := v.sameCluster(ctx)
	if err != nil && (hook == FreezeWrites || errors.Is(err, checkpoint.ErrClusterChanged)) {
		return err
	}
	return nil
}
