package plan

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// sourceEnd holds the requests to DynamoDB that a plan makes for a table.
type sourceEnd interface {
	backfill.ItemSource
	// Open opens a stream.
	Open(streamARN string) cdc.Source
	// Attribute returns the attribute by which a table's items expire; "" if items do not expire.
	Attribute(ctx context.Context, table string) (string, error)
	// Recovery returns whether a table can be restored to a point in time.
	Recovery(ctx context.Context, table string) (backfill.Recovery, error)
}

// targetEnd holds the requests to Bigtable with which a plan reads and creates resources. Its
// methods retry temporary failures.
type targetEnd interface {
	status.Target
	Profile(ctx context.Context) (sink.Profile, error)
	Permissions(ctx context.Context, wanted []string) (has []string, note string, err error)
	Lacks(ctx context.Context, spec sink.TableSpec) (sink.Lacks, error)
	Create(ctx context.Context, spec sink.TableSpec) (sink.Made, error)
	instance
}

// instance holds the requests to Bigtable that are not retried.
type instance interface {
	Clusters(ctx context.Context) (clusters []sink.Cluster, note string, err error)
	View(ctx context.Context, table, view string) (sink.View, error)
	CreateProfile(ctx context.Context, cluster string) error
	EnableChangeStream(ctx context.Context, table string) error
}

// fromOf and toOf wrap the clients of the source and the target.
func fromOf(s *preflight.Source) sourceEnd { return dynamo{s} }

func toOf(t *preflight.Target) targetEnd { return bigtable{t} }

type dynamo struct{ s *preflight.Source }

func (d dynamo) Get(ctx context.Context, table string, key attribute.Item) (attribute.Item, bool, error) {
	return d.s.Tables.Get(ctx, table, key)
}

func (d dynamo) Open(streamARN string) cdc.Source { return d.s.Stream(streamARN) }

func (d dynamo) Attribute(ctx context.Context, table string) (string, error) {
	return d.s.Expiry.Attribute(ctx, table)
}

func (d dynamo) Recovery(ctx context.Context, table string) (backfill.Recovery, error) {
	return d.s.Exporter.Recovery(ctx, table)
}

type bigtable struct{ *preflight.Target }

func (b bigtable) Clusters(ctx context.Context) ([]sink.Cluster, string, error) {
	return b.Admin.Clusters(ctx)
}

func (b bigtable) View(ctx context.Context, table, view string) (sink.View, error) {
	return b.Admin.View(ctx, table, view)
}

func (b bigtable) CreateProfile(ctx context.Context, cluster string) error {
	return b.Admin.CreateProfile(ctx, cluster)
}

func (b bigtable) EnableChangeStream(ctx context.Context, table string) error {
	return b.Admin.EnableChangeStream(ctx, table)
}
