package switchover

import (
	"context"
	"os"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/comparison"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/cutover"
	"github.com/dynamodb-bigtable/replicator/internal/fallback"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/reverse"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/tablepolicy"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Source holds the requests to DynamoDB with which a cutover writes canaries, and reads streams and
// items.
type Source interface {
	cutover.Source
	comparison.Source
	preflight.Census
	// Open opens a stream.
	Open(streamARN string) cdc.Source
}

// Target holds the requests to Bigtable with which a cutover compares rows, changes schemas and
// uses the state table.
type Target interface {
	comparison.Target
	status.Target
	schema
	// WitnessStore returns the store of a target table's witness rows.
	WitnessStore(table string) checkpoint.Store
}

// schema holds the requests with which a cutover changes a target table's schema.
type schema interface {
	sink.Families
	DropView(ctx context.Context, table, view string) error
	// DropOwn removes a column family that replicator created.
	DropOwn(ctx context.Context, table, family string) error
}

// Ends holds the clients and stores of a driver.
type Ends struct {
	Cfg    *config.Config
	Ledger *checkpoint.Ledger
	Source Source // if nil, the driver can only judge gates
	Target Target
	// Timings are those of ways back.
	Timings fallback.Timings
	// Back holds the clients of a way back; zero without a source or a target.
	Back Back
	// Cluster returns the cluster to which the app profile routes. If it is nil, the cluster is not
	// checked.
	Cluster func(ctx context.Context) (string, error)
	// WayBack checks whether the way back of a source table is possible; nil if this process cannot.
	WayBack func(ctx context.Context, source string) (cutover.WayBack, error)
	// Freezing freezes source tables by their policies. It is nil if hooks alone freeze writes.
	Freezing Freezing
	// FreezeTimings are the durations of a freeze by policies. Tests of services with short windows
	// shorten them.
	FreezeTimings tablepolicy.Timings
	// Version is the version of this process.
	Version string
}

// Back holds the clients of a way back.
type Back struct {
	Items fallback.Items
	Read  reverse.Items
	Rows  BackRows
}

// BackRows holds the requests to Bigtable with which a way back reads rows and their changes.
type BackRows interface {
	fallback.Reader
	reverse.Rows
}

// EndsOf returns the Ends for clients. The source s may be nil.
func EndsOf(cfg *config.Config, ledger *checkpoint.Ledger, s *preflight.Source, t *preflight.Target, version string) Ends {
	e := Ends{Cfg: cfg, Ledger: ledger, Version: version, Timings: fallback.TimingsOf(os.LookupEnv)}
	if s != nil {
		if cfg.Cutover.ByTablePolicy() {
			e.Freezing = newFreezing(cfg, s)
		}
		e.Source = dynamo{s.Tables, s.Canary, s.Expiry, func(arn string) cdc.Source { return s.Stream(arn) }}
	}
	if s != nil && s.Client() != nil && t != nil {
		items := fallback.NewDynamoDB(s.Client())
		e.Back = Back{Items: items, Read: s.Tables, Rows: t.Data}
		e.WayBack = e.checkBack(items, t, e.Timings)
	}
	if t != nil {
		e.Cluster = t.Cluster
		e.Target = bigtable{rows: t.Data, schema: t.Admin, state: t}
	}
	return e
}

// dynamo is a Source that uses clients.
type dynamo struct {
	*backfill.Tables
	*backfill.CanaryWriter
	*backfill.Expiry
	open func(streamARN string) cdc.Source
}

func (d dynamo) Open(streamARN string) cdc.Source { return d.open(streamARN) }

// bigtable is a Target that uses clients.
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
