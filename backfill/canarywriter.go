package backfill

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/attribute"
)

// WriteAPI is the part of *dynamodb.Client that a CanaryWriter uses. The caller must build the
// client with ClientOptions.
type WriteAPI interface {
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
}

// CanaryWriter writes and removes the canaries of a cutover. Canaries are the only items that
// replicator ever writes to a source. The calls of a CanaryWriter behave like the calls of Tables.
type CanaryWriter struct{ api WriteAPI }

// NewCanaryWriter writes through a client that was built with ClientOptions.
func NewCanaryWriter(api WriteAPI) *CanaryWriter { return &CanaryWriter{api} }

// Put writes an item. Its attributes must be of type S, N or B.
func (w *CanaryWriter) Put(ctx context.Context, table string, item attribute.Item) error {
	return write(ctx, "PutItem", item, func(attributes map[string]types.AttributeValue) error {
		_, err := ask(ctx, w.api.PutItem, &dynamodb.PutItemInput{TableName: &table, Item: attributes})
		return err
	})
}

// Delete removes the item with the key, if it exists.
func (w *CanaryWriter) Delete(ctx context.Context, table string, key attribute.Item) error {
	return write(ctx, "DeleteItem", key, func(attributes map[string]types.AttributeValue) error {
		_, err := ask(ctx, w.api.DeleteItem, &dynamodb.DeleteItemInput{TableName: &table, Key: attributes})
		return err
	})
}

func write(ctx context.Context, op string, item attribute.Item, send func(map[string]types.AttributeValue) error) error {
	attributes, err := keyAttributes(item)
	if err != nil {
		return malformed(op, err)
	}
	if err := send(attributes); err != nil {
		return failure(ctx, op, err, false)
	}
	return nil
}
