package apply

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
)

// watchCluster ends the process when the app profile routes to another cluster (H46). Other
// processes notice a new cluster by their leases and listings, but a process that only applies has
// neither.
func (a *appliers) watchCluster(ctx context.Context) error {
	if a.Cluster == nil {
		return nil
	}
	w := &engine.ClusterWatch{Retrier: a.Retrier, Ledger: a.Ledger, Ask: a.Cluster, Every: a.Timing.List, End: a.end}
	return w.Run(engine.Until(ctx))
}
