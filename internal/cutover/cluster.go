package cutover

import (
	"context"
	"errors"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// sameCluster fails with checkpoint.ErrClusterChanged if the app profile routes to another cluster
// than the ledger's (H46). In another cluster, rows may be missing, and the cutover's record may be
// outdated. Then a failover must decide.
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

// mayCall refuses to call a hook if the target is in another cluster. If Bigtable's control plane
// does not answer, mayCall refuses only the hook that freezes the application.
func (v *drive) mayCall(ctx context.Context, hook string) error {
	err := v.sameCluster(ctx)
	if err != nil && (hook == FreezeWrites || errors.Is(err, checkpoint.ErrClusterChanged)) {
		return err
	}
	return nil
}
