package dynamodbtest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// A test starts the server on its own listener, points the SDK at it, and controls its shards.
func Example() {
	clock := func() time.Time { return time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC) }
	server := dynamodbtest.New(dynamodbtest.Options{Clock: clock})
	listener := httptest.NewServer(server)
	defer listener.Close()
	client := dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		BaseEndpoint: &listener.URL,
		Credentials:  credentials.NewStaticCredentialsProvider("any", "thing", ""),
	})
	ctx := context.Background()
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName:            aws.String("Orders"),
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: "S"}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: "HASH"}},
		StreamSpecification:  &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: "NEW_AND_OLD_IMAGES"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = client.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: aws.String("Orders"),
		Item:      map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "1"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	shards, _ := server.Shards("Orders")
	children, _ := server.SplitShard("Orders", shards[0].ID)
	fmt.Println("records:", shards[0].Records, "children:", len(children))
	// Output: records: 1 children: 2
}

// A program must cope with calls that fail, and with calls that take effect although their answer says that they failed.
func ExampleServer_Fail() {
	server := dynamodbtest.New(dynamodbtest.Options{})
	listener := httptest.NewServer(server)
	defer listener.Close()
	client := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: &listener.URL, Credentials: credentials.NewStaticCredentialsProvider("any", "thing", ""),
		Retryer: aws.NopRetryer{},
	})
	ctx := context.Background()
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: aws.String("Orders"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: "S"}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: "HASH"}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	server.Fail(dynamodbtest.Fault{Operation: "PutItem", Error: "ProvisionedThroughputExceededException", Times: 1})
	server.Fail(dynamodbtest.Fault{Operation: "PutItem", Error: "InternalServerError", AfterEffect: true})
	put := &dynamodb.PutItemInput{
		TableName: aws.String("Orders"), Item: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "1"}},
		ConditionExpression: aws.String("attribute_not_exists(id)"),
	}
	for range 3 {
		_, err = client.PutItem(ctx, put)
		var api smithy.APIError
		if errors.As(err, &api) {
			fmt.Println(api.ErrorCode())
		}
	}
	// Output:
	// ProvisionedThroughputExceededException
	// InternalServerError
	// ConditionalCheckFailedException
}
