package dualwrite

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// writeTime bounds one request to DynamoDB.
const writeTime = backfill.CallTime

type dynamoTable struct {
	client *dynamodb.Client
	tables *backfill.Tables
	name   string
}

// DynamoDB returns a table as a Source. Each call makes one attempt, regardless of the client's
// retryer. If a conditional write was executed, a retry of it would fail because of its own
// condition.
func DynamoDB(client *dynamodb.Client, table string) Source {
	return &dynamoTable{client, backfill.NewTables(client), table}
}

func (t *dynamoTable) Get(ctx context.Context, keys attribute.Item) (attribute.Item, bool, error) {
	return t.tables.Get(ctx, t.name, keys)
}

func (t *dynamoTable) Write(ctx context.Context, c Change) (attribute.Item, error) {
	ctx, cancel := task.WithTimeout(ctx, writeTime)
	defer cancel()
	condition, names, values := c.condition()
	var old map[string]types.AttributeValue
	var err error
	if c.Image.Exists() {
		var out *dynamodb.PutItemOutput
		out, err = t.client.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: &t.name, Item: SDKItem(c.Image), ReturnValues: types.ReturnValueAllOld,
			ConditionExpression: condition, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		}, backfill.Strictly)
		if err == nil {
			old = out.Attributes
		}
	} else {
		var out *dynamodb.DeleteItemOutput
		out, err = t.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
			TableName: &t.name, Key: SDKItem(c.Keys), ReturnValues: types.ReturnValueAllOld,
			ConditionExpression: condition, ExpressionAttributeNames: names, ExpressionAttributeValues: values,
		}, backfill.Strictly)
		if err == nil {
			old = out.Attributes
		}
	}
	if err != nil {
		return attribute.Item{}, asWriteError(err)
	}
	return backfill.ConvertItem(old)
}

// Transact makes all changes or none of them.
func (t *dynamoTable) Transact(ctx context.Context, changes []Change) error {
	ctx, cancel := task.WithTimeout(ctx, writeTime)
	defer cancel()
	items := make([]types.TransactWriteItem, len(changes))
	for i, c := range changes {
		condition, names, values := c.condition()
		if c.Image.Exists() {
			items[i].Put = &types.Put{TableName: &t.name, Item: SDKItem(c.Image),
				ConditionExpression: condition, ExpressionAttributeNames: names, ExpressionAttributeValues: values}
		} else {
			items[i].Delete = &types.Delete{TableName: &t.name, Key: SDKItem(c.Keys),
				ConditionExpression: condition, ExpressionAttributeNames: names, ExpressionAttributeValues: values}
		}
	}
	_, err := t.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: items}, backfill.Strictly)
	if err != nil {
		return asWriteError(err)
	}
	return nil
}

// conflicts are the reasons for a cancelled transaction that may succeed after the items are read
// again. Another write was faster, or is in flight.
var conflicts = []string{"ConditionalCheckFailed", "TransactionConflict"}

// condition returns DynamoDB's expression for what a change expects of the item; nil if it expects
// nothing.
func (c Change) condition() (*string, map[string]string, map[string]types.AttributeValue) {
	names := map[string]string{"#v": c.Attribute}
	switch {
	case c.Attribute == "":
		return nil, nil, nil
	case c.Number == "":
		return aws.String("attribute_not_exists(#v)"), names, nil
	}
	return aws.String("#v = :v"), names, map[string]types.AttributeValue{":v": &types.AttributeValueMemberN{Value: c.Number}}
}

// asWriteError classifies a failed write by whether the write was certainly not executed. It
// withholds a text of the service that may quote an item.
func asWriteError(err error) error {
	var conflict *types.ConditionalCheckFailedException
	if errors.As(err, &conflict) {
		return ErrConflict
	}
	var canceled *types.TransactionCanceledException
	if errors.As(err, &canceled) && slices.ContainsFunc(canceled.CancellationReasons, func(r types.CancellationReason) bool {
		return slices.Contains(conflicts, aws.ToString(r.Code))
	}) {
		return ErrConflict
	}
	var answer *smithyhttp.ResponseError
	refused := errors.As(err, &answer) && answer.HTTPStatusCode()/100 == http.StatusBadRequest/100
	var named smithy.APIError
	switch {
	case refused && errors.As(err, &named):
		return &NotExecuted{fmt.Errorf("DynamoDB refused the write: %s", named.ErrorCode())}
	case refused:
		return &NotExecuted{fmt.Errorf("DynamoDB refused the write with HTTP status %d", answer.HTTPStatusCode())}
	case errors.As(err, &named):
		return fmt.Errorf("DynamoDB: %s", named.ErrorCode())
	}
	return err
}

// SDKItem converts an item for the SDK. It returns nil for an item that does not exist.
func SDKItem(item attribute.Item) map[string]types.AttributeValue {
	return membersToSDK(item.Attributes())
}

func membersToSDK(members []attribute.Attribute) map[string]types.AttributeValue {
	attributes := make(map[string]types.AttributeValue, len(members))
	for _, a := range members {
		attributes[a.Name] = SDKValue(a.Value)
	}
	return attributes
}

// SDKValue converts a value for the SDK.
func SDKValue(v attribute.Value) types.AttributeValue {
	texts := func() (list []string) {
		for _, e := range v.Elements() {
			list = append(list, e.Text())
		}
		return list
	}
	switch v.Kind() {
	case attribute.KindS:
		return &types.AttributeValueMemberS{Value: v.Text()}
	case attribute.KindN:
		return &types.AttributeValueMemberN{Value: v.Text()}
	case attribute.KindB:
		return &types.AttributeValueMemberB{Value: []byte(v.Text())}
	case attribute.KindBOOL:
		return &types.AttributeValueMemberBOOL{Value: v.Bool()}
	case attribute.KindNULL:
		return &types.AttributeValueMemberNULL{Value: true}
	case attribute.KindM:
		return &types.AttributeValueMemberM{Value: membersToSDK(v.Members())}
	case attribute.KindSS:
		return &types.AttributeValueMemberSS{Value: texts()}
	case attribute.KindNS:
		return &types.AttributeValueMemberNS{Value: texts()}
	case attribute.KindBS:
		var list [][]byte
		for _, text := range texts() {
			list = append(list, []byte(text))
		}
		return &types.AttributeValueMemberBS{Value: list}
	}
	list := make([]types.AttributeValue, 0, len(v.Elements())) // an empty list, too
	for _, e := range v.Elements() {
		list = append(list, SDKValue(e))
	}
	return &types.AttributeValueMemberL{Value: list}
}
