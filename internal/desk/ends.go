package desk

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/failover"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/source"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Target is the target of a migration as far as commands need it that leave its clients alone.
type Target interface {
	failover.Clusters
	sink.Table
	sink.Reader
	// Ledger is where the ledger is in the state table, and Records what is parked there.
	Ledger(stateTable string) checkpoint.Store
	Records(stateTable string) sink.Records
	// WitnessStore is where the witness of a target table is.
	WitnessStore(table string) checkpoint.Store
	Close() error
}

// Source is the source of a migration as far as commands need it that leave its clients alone.
type Source interface {
	preflight.Describer
	source.Reporter
	backfill.ItemSource
	// Recovery is whether a table can be exported.
	Recovery(ctx context.Context, table string) (backfill.Recovery, error)
	// OpenFolder opens a folder that holds what a load copies, and gives its name in the store.
	OpenFolder(ctx context.Context, env config.Lookup, address string) (store source.Store, name string, err error)
}

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
