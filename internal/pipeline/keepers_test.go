package pipeline

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
)

// keeperOf is the keeper of a rig.
func keeperOf(r *rig) *keeper {
	return partOf(r, func(s *shared) *keeper {
		_, conductor := newLoads(s)
		return newKeeper(s, newReconciler(s, newAdmission(s)), conductor)
	})
}

// keeping takes the keeper lease of a table that nobody keeps, and lets its target be written to.
func keeping(ctx context.Context, k *rig) (*checkpoint.Keeper, error) {
	if err := (fence.Fence{Ledger: k.Ledger}).Open(ctx, k.Mapping.Tables()...); err != nil {
		return nil, err
	}
	lease, err := k.Ledger.KeeperLease(ctx, k.Mapping.Source)
	if err != nil {
		return nil, err
	}
	return k.Ledger.TakeKeeperLease(ctx, lease)
}
