package cdc_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// A program lists the shards of a stream and reads one from the horizon. It moves the position only
// after it has processed the page, so after a crash it reads the page again.
func ExampleReader() {
	clock := func() time.Time { return time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC) }
	service := httptest.NewServer(dynamodbtest.New(dynamodbtest.Options{Clock: clock}))
	defer service.Close()
	config := aws.Config{
		Region: "eu-west-1", BaseEndpoint: aws.String(service.URL),
		Credentials: credentials.NewStaticCredentialsProvider("any", "thing", ""),
	}
	ctx, db := context.Background(), dynamodb.NewFromConfig(config)
	created, err := db.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: aws.String("Orders"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: "S"}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: "HASH"}},
		StreamSpecification:  &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: "NEW_AND_OLD_IMAGES"},
	})
	if err != nil {
		panic(err)
	}
	_, err = db.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: map[string]types.AttributeValue{
		"pk": &types.AttributeValueMemberS{Value: "order#7"}, "total": &types.AttributeValueMemberN{Value: "15"},
	}})
	if err != nil {
		panic(err)
	}

	stream := cdc.NewSource(dynamodbstreams.NewFromConfig(config, cdc.ClientOptions), *created.TableDescription.LatestStreamArn)
	listing, err := cdc.ListShards(ctx, stream, "")
	if err != nil {
		panic(err)
	}
	reader := cdc.Reader{Source: stream, Shard: listing.Shards[0].ID}
	var applied cdc.Position // the horizon
	page, err := reader.Read(ctx, applied)
	if err != nil {
		panic(err)
	}
	for _, change := range page.Changes {
		image, err := attribute.MarshalItem(change.New)
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s %s\n", change.Event, image)
		applied.After = change.Sequence
	}
	fmt.Println("at the horizon:", applied.AtHorizon(), "shard ended:", page.End)
	// Output:
	// INSERT {"pk":{"S":"order#7"},"total":{"N":"15"}}
	// at the horizon: false shard ended: false
}

// A shard outranks its parent: for the same item, a child's changes are newer.
func ExampleRankShards() {
	placed, orphans := cdc.RankShards(nil, []cdc.Shard{{ID: "child", Parent: "parent"}, {ID: "parent"}}, true)
	for _, shard := range placed {
		fmt.Println(shard.ID, shard.Hop-cdc.RootHop)
	}
	fmt.Println(len(orphans), "orphans")
	// Output:
	// parent 0
	// child 1
	// 0 orphans
}
