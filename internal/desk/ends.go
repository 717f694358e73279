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

// Target is the part of the target that commands use without its clients.
type Target interface {
	failover.Clusters
	sink.Table
	sink.Reader
	// Ledger returns the store of the ledger, which is in the state table. Records returns the
	// store of parked items.
	Ledger(stateTable string) checkpoint.Store
	Records(stateTable string) sink.Records
	// WitnessStore returns the store of a target table's witness row.
	WitnessStore(table string) checkpoint.Store
	Close() error
}

// Source is the part of the source that commands use without its clients.
type Source interface {
	preflight.Describer
	source.Reporter
	backfill.ItemSource
	// Recovery returns a table's settings for point-in-time recovery, on which exports depend.
	Recovery(ctx context.Context, table string) (backfill.Recovery, error)
	// OpenFolder opens the folder from which a load copies. It returns the store and the folder's
	// name in the store.
	OpenFolder(ctx context.Context, env config.Lookup, address string) (store source.Store, name string, err error)
}

// Ends opens both databases of a migration. The zero value opens the databases of the
// configuration.
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
