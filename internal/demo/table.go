package demo

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"
)

// batchSize is the maximum number of items in a BatchWriteItem.
// Source: https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_BatchWriteItem.html
const batchSize = 25

// makeTable creates the table with the given number of items, and enables its stream only
// afterwards. The stream therefore does not have these items, and they must be copied.
func makeTable(ctx context.Context, client *dynamodb.Client, items int, seed uint64) error {
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:   aws.String(tableName),
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String(partitionKey), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String(sortKey), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String(partitionKey), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String(sortKey), KeyType: types.KeyTypeRange},
		},
	})
	if err != nil {
		return fmt.Errorf("create table %s: %w", tableName, err)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for first := 0; first < items; first += batchSize {
		g.Go(func() error { return putBatch(gctx, client, first, min(first+batchSize, items), seed) })
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("fill table %s: %w", tableName, err)
	}
	_, err = client.UpdateTable(ctx, &dynamodb.UpdateTableInput{
		TableName:           aws.String(tableName),
		StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
	})
	if err != nil {
		return fmt.Errorf("enable the stream of table %s: %w", tableName, err)
	}
	return nil
}

// putBatch writes the items from the index `first` up to, but not including, the index `last`. Each
// batch draws from its own random source, so the items do not depend on the order in which the
// batches run.
func putBatch(ctx context.Context, client *dynamodb.Client, first, last int, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, uint64(first)))
	var requests []types.WriteRequest
	for n := first; n < last; n++ {
		requests = append(requests, types.WriteRequest{PutRequest: &types.PutRequest{Item: newItem(r, identityOf(n))}})
	}
	for len(requests) > 0 {
		out, err := client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{tableName: requests}})
		if err != nil {
			return err
		}
		requests = out.UnprocessedItems[tableName]
	}
	return nil
}
