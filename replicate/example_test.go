package replicate_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/dynamodb-bigtable/replicator/bigtabletest"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/replicate"
)

// Copies a table, and follows its changes, between an embedded DynamoDB and an embedded Bigtable.
// With the real services, leave out Endpoint, Emulator and WithAWSConfig.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	endpoint, emulator, closed := services()
	defer closed()
	identity := aws.Config{Region: "eu-west-1", Credentials: credentials.NewStaticCredentialsProvider("any", "thing", "")}
	orders := newTable(ctx, identity, endpoint, emulator)
	orders.put("1", "new")

	r, err := replicate.New(replicate.Config{
		Source: replicate.Source{Endpoint: endpoint},
		Target: replicate.Target{Project: "my-project", Instance: "my-instance", Emulator: emulator},
		Tables: []replicate.Table{{From: "Orders", Columns: []replicate.Column{{Attribute: "state", To: "o:state"}}, YAML: "families: { o: maxversions=1 }"}},
		// By default a first load is fast, and its sweep waits for old requests, about 15 s.
		Backfill: replicate.Backfill{Mode: "guarded"},
	}, replicate.WithAWSConfig(identity))
	if err != nil {
		fmt.Println(err)
		return
	}
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()

	status, err := r.Wait(ctx, replicate.GoalInSync)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(status.Tables[0].Source, status.State)
	fmt.Println("copied:", orders.read("1", "new"))
	orders.put("1", "paid")
	fmt.Println("followed:", orders.read("1", "paid"))
	stop()
	fmt.Println("ended:", <-ended)
	// Output:
	// Orders in_sync
	// copied: new
	// followed: paid
	// ended: <nil>
}

// services starts an embedded DynamoDB and an embedded Bigtable.
func services() (endpoint, emulator string, closed func()) {
	source := httptest.NewServer(dynamodbtest.New(dynamodbtest.Options{Region: "eu-west-1"}))
	target, err := bigtabletest.New(bigtabletest.Options{})
	if err != nil {
		panic(err)
	}
	return source.URL, target.Addr(), func() { source.Close(); target.Close() }
}

// table is the table Orders, in the source and in the target.
type table struct {
	ctx    context.Context
	source *dynamodb.Client
	target *bigtable.Table
}

// newTable creates the table Orders in the source.
func newTable(ctx context.Context, identity aws.Config, endpoint, emulator string) *table {
	t := &table{ctx: ctx, source: dynamodb.NewFromConfig(identity, func(o *dynamodb.Options) { o.BaseEndpoint = &endpoint })}
	conn, err := grpc.NewClient("passthrough:///"+emulator, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	client, err := bigtable.NewClient(ctx, "my-project", "my-instance", option.WithGRPCConn(conn))
	if err != nil {
		panic(err)
	}
	t.target = client.Open("Orders")
	if _, err = t.source.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: aws.String("Orders"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: "S"}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: "HASH"}},
		StreamSpecification:  &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: "NEW_AND_OLD_IMAGES"},
	}); err != nil {
		panic(err)
	}
	return t
}

// put writes an order to the source.
func (t *table) put(id, state string) {
	_, err := t.source.PutItem(t.ctx, &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: map[string]types.AttributeValue{
		"id": &types.AttributeValueMemberS{Value: id}, "state": &types.AttributeValueMemberS{Value: state},
	}})
	if err != nil {
		panic(err)
	}
}

// read reads an order from the target until it has a state.
func (t *table) read(id, state string) string {
	for range time.Tick(50 * time.Millisecond) {
		row, err := t.target.ReadRow(t.ctx, id)
		if err != nil {
			panic(err)
		}
		for _, cell := range row["o"] {
			if string(cell.Value) == state {
				return state
			}
		}
	}
	return ""
}

// New reports every mistake of a configuration, each with a code, a place and a fix. Here most of it
// is text in the form of replicator.yaml, with a variable.
func ExampleNew() {
	_, err := replicate.New(replicate.Config{
		Target: replicate.Target{Project: "my-project"},
		YAML:   "version: 1\nname: orders-${STAGE}\ntables:\n  - from: Orders\n    owend: true\n",
	}, replicate.WithEnvironment(func(name string) (string, bool) { return "test", name == "STAGE" }))
	var first *replicate.Error
	if errors.As(err, &first) {
		fmt.Println(first.Code, first.Place)
	}
	fmt.Println(strings.Count(err.Error(), "\n")+1, "mistakes")
	// Output:
	// R1007 Config.YAML:1:1
	// 2 mistakes
}
