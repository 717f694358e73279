package switchover

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/comparison"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Source is DynamoDB as a cutover uses it: it writes canaries, and reads streams and items.
type Source interface {
	cutover.Source
	comparison.Source
	// Open opens a stream.
	Open(streamARN string) cdc.Source
}

// Target is Bigtable as a cutover uses it: its rows are compared, its schema is changed, and the
// state table is there.
type Target interface {
	comparison.Target
	status.Target
	schema
	// WitnessStore is where the witnesses of a target table are.
	WitnessStore(table string) checkpoint.Store
}

// schema is what a cutover changes of a target table.
type schema interface {
	sink.Families
	DropView(ctx context.Context, table, view string) error
	// DropOwn removes a family of ours, whichever it is.
	DropOwn(ctx context.Context, table, family string) error
}

// Ends are what a driver works with.
type Ends struct {
	Cfg    *config.Config
	Ledger *checkpoint.Ledger
	Source Source // nil: gates alone are looked at
	Target Target
	// Cluster says which cluster the app profile routes to; nil: nobody asks.
	Cluster func(ctx context.Context) (string, error)
	// Version is that of this process.
	Version string
}

// EndsOf are those of clients; s is nil before the source was connected to.
func EndsOf(cfg *config.Config, ledger *checkpoint.Ledger, s *preflight.Source, t *preflight.Target, version string) Ends {
	e := Ends{Cfg: cfg, Ledger: ledger, Version: version}
	if s != nil {
		e.Source = dynamo{s.Tables, s.Canary, func(arn string) cdc.Source { return s.Stream(arn) }}
	}
	if t != nil {
		e.Cluster = t.Cluster
		e.Target = bigtable{rows: t.Data, schema: t.Admin, state: t}
	}
	return e
}

// dynamo is a Source made of clients.
type dynamo struct {
	*backfill.Tables
	*backfill.CanaryWriter
	open func(streamARN string) cdc.Source
}

func (d dynamo) Open(streamARN string) cdc.Source { return d.open(streamARN) }

// bigtable is a Target made of clients.
type bigtable struct {
	rows
	schema
	state
}

type (
	rows  interface{ comparison.Target }
	state interface {
		status.Target
		WitnessStore(table string) checkpoint.Store
	}
)
