// Package opened opens the kit's migration for commands, as a desk does with real clients.
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

// deskTarget has the methods of the target that a desk uses.
type deskTarget struct {
	desk.Target
	t *kit.Target
}

func (d deskTarget) Ledger(string) checkpoint.Store              { return d.t.Ledger("") }
func (d deskTarget) Records(string) sink.Records                 { return d.t.Records("") }
func (d deskTarget) Cluster(ctx context.Context) (string, error) { return d.t.Cluster(ctx) }
func (d deskTarget) Close() error                                { return d.t.Close() }

// deskSource has the methods of the source that a desk uses.
type deskSource struct {
	desk.Source
	s *kit.Source
}

func (d deskSource) Describe(ctx context.Context, table string) (backfill.Description, error) {
	return d.s.Describe(ctx, table)
}
