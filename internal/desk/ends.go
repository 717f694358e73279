package desk

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
)

// Target is the target of a migration as far as its checks need it.
type Target interface {
	// Ledger is where the ledger is in the state table.
	Ledger(stateTable string) checkpoint.Store
	// Cluster is where requests are led to now; "" if that is not known.
	Cluster(ctx context.Context) (string, error)
	Close() error
}

// Source is the source of a migration as far as its checks need it.
type Source interface{ preflight.Describer }

// Ends opens the two ends of a migration. The zero value opens those of the configuration.
type Ends struct {
	Target func(ctx context.Context, cfg *config.Config) (Target, error)
	Source func(ctx context.Context, cfg *config.Config) (Source, error)
}

func (e Ends) target(ctx context.Context, cfg *config.Config) (Target, error) {
	if e.Target != nil {
		return e.Target(ctx, cfg)
	}
	return preflight.OpenTarget(ctx, cfg)
}

func (e Ends) source(ctx context.Context, cfg *config.Config) (Source, error) {
	if e.Source != nil {
		return e.Source(ctx, cfg)
	}
	return preflight.ConnectSource(ctx, cfg)
}
