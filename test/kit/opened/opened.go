// Package opened opens the migration of the kit for commands, as a desk does with clients.
package opened

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/kit"
)

// By opens both ends of a migration.
func By(m *kit.Migration) desk.Ends {
	return desk.Ends{
		Target: func(context.Context, *config.Config) (desk.Target, error) { return deskTarget{t: m.Target}, nil },
		Source: func(context.Context, *config.Config) (desk.Source, error) { return deskSource{s: m.Source}, nil },
	}
}

// deskTarget is what a desk asks of the target; what else it could ask is not there.
type deskTarget struct {
	desk.Target
	t *kit.Target
}

func (d deskTarget) Ledger(string) checkpoint.Store              { return d.t.Ledger("") }
func (d deskTarget) Records(string) sink.Records                 { return d.t.Records("") }
func (d deskTarget) Cluster(ctx context.Context) (string, error) { return d.t.Cluster(ctx) }
func (d deskTarget) Close() error                                { return d.t.Close() }

// deskSource is the same of the source.
type deskSource struct {
	desk.Source
	s *kit.Source
}

func (d deskSource) Describe(ctx context.Context, table string) (backfill.Description, error) {
	return d.s.Describe(ctx, table)
}
