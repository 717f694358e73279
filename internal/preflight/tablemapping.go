package preflight

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// MapTable returns the mapping of a source table with the given primary key. If rules are not valid
// for the key, the error is a list of findings.
func MapTable(t config.Table, primaryKey []transform.KeyAttribute) (*transform.Mapping, error) {
	return t.Mapping(primaryKey)
}

// Describer describes source tables.
type Describer interface {
	Describe(ctx context.Context, table string) (backfill.Description, error)
}

// DescribeTable reads the description of a configured table from DynamoDB and builds its mapping.
// It retries temporary failures within ProbeTime.
func DescribeTable(ctx context.Context, tables Describer, t config.Table) (Table, error) {
	limited, cancel := task.WithTimeout(ctx, ProbeTime)
	defer cancel()
	var d backfill.Description
	err := repeat(limited, mayPassAtAWS, func(ctx context.Context) (err error) {
		d, err = tables.Describe(ctx, t.From)
		return err
	})
	if err != nil {
		return Table{}, ExplainSource("cannot read table "+t.From, t.From, err)
	}
	m, err := MapTable(t, d.PrimaryKey)
	if err != nil {
		return Table{}, err
	}
	return Table{Config: t, Description: d, Mapping: m}, nil
}
