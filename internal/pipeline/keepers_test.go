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

// keeperOf is the keeper of a rig.
func keeperOf(r *enginetest.Rig) *keeper {
	return enginetest.PartOf(r, func(s *engine.Table) *keeper {
		_, conductor := load.New(s)
		return newKeeper(s, stream.New(s, stream.NewAdmission(s)), conductor)
	})
}

// keeping takes the keeper lease of a table that nobody keeps, and lets its target be written to.
func keeping(ctx context.Context, k *enginetest.Rig) (*checkpoint.Keeper, error) {
	if err := (fence.Fence{Ledger: k.Ledger}).Open(ctx, k.Mapping.Tables()...); err != nil {
		return nil, err
	}
	lease, err := k.Ledger.KeeperLease(ctx, k.Mapping.Source)
	if err != nil {
		return nil, err
	}
	return k.Ledger.TakeKeeperLease(ctx, lease)
}
