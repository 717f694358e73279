package pipeline

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/load"
	"github.com/dynamodb-bigtable/replicator/internal/stream"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
)

// coordinatorOf returns the coordinator of a rig.
func coordinatorOf(r *enginetest.Rig) *coordinator {
	return enginetest.PartOf(r, func(s *engine.Table) *coordinator {
		_, conductor := load.New(s)
		return newCoordinator(s, stream.New(s, stream.NewAdmission(s)), conductor)
	})
}

// keeping takes the free coordinator lease of a table, and makes its target writable.
func keeping(ctx context.Context, k *enginetest.Rig) (*checkpoint.Coordinator, error) {
	if err := (fence.Fence{Ledger: k.Ledger}).Open(ctx, k.Mapping.Tables()...); err != nil {
		return nil, err
	}
	lease, err := k.Ledger.CoordinatorLease(ctx, k.Mapping.Source)
	if err != nil {
		return nil, err
	}
	return k.Ledger.TakeCoordinatorLease(ctx, lease)
}
