package main

import (
	"context"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// mapTable is the mapping of a source table with the given primary key. What is wrong with the rules for that key is a list of
// findings.
func mapTable(t config.Table, primaryKey []transform.KeyAttribute) (*transform.Mapping, error) {
	return t.Mapping(primaryKey)
}

// describeTable asks DynamoDB for a table of the configuration and makes its mapping.
func describeTable(ctx context.Context, tables *backfill.Tables, t config.Table) (probedTable, error) {
	d, err := tables.Describe(ctx, t.From)
	if err != nil {
		return probedTable{}, explainSource("cannot read table "+t.From, t.From, err)
	}
	m, err := mapTable(t, d.PrimaryKey)
	if err != nil {
		return probedTable{}, err
	}
	return probedTable{config: t, description: d, mapping: m}, nil
}
