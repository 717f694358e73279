package backfill_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// exampleClient returns a client of an embedded DynamoDB with a table Orders of one item. Exports
// need point-in-time recovery, so that is on.
func exampleClient() (client *dynamodb.Client, closed func()) {
	clock := func() time.Time { return time.Date(2026, 11, 25, 10, 0, 0, 0, time.UTC) }
	service := httptest.NewServer(dynamodbtest.New(dynamodbtest.Options{Clock: clock}))
	client = dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: &service.URL, Credentials: credentials.NewStaticCredentialsProvider("any", "thing", ""),
	}, backfill.ClientOptions)
	ctx, table := context.Background(), aws.String("Orders")
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: table, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: "S"}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: "HASH"}},
	})
	if err == nil {
		_, err = client.PutItem(ctx, &dynamodb.PutItemInput{TableName: table, Item: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "order#1"}}})
	}
	if err == nil {
		_, err = client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{TableName: table, TimeToLiveSpecification: &types.TimeToLiveSpecification{
			AttributeName: aws.String("expires"), Enabled: aws.Bool(true),
		}})
	}
	if err == nil {
		_, err = client.UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{TableName: table,
			PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)}})
	}
	if err != nil {
		panic(err)
	}
	return client, service.Close
}

// A program describes a table and scans it, page by page.
func ExampleNewTables() {
	client, closed := exampleClient()
	defer closed()
	ctx, tables := context.Background(), backfill.NewTables(client)
	d, err := tables.Describe(ctx, "Orders")
	if err != nil {
		panic(err)
	}
	fmt.Println(d.Name, d.Status, d.PrimaryKey[0].Name, d.StreamEnabled)
	page, err := tables.Scan(ctx, "Orders", 0, 1, attribute.Item{}, 100)
	if err != nil {
		panic(err)
	}
	fmt.Println(len(page.Items), "item, more:", page.Next.Exists())
	// Output:
	// Orders ACTIVE pk false
	// 1 item, more: false
}

// A program that writes a configuration reads the attribute by which items expire.
func ExampleNewExpiry() {
	client, closed := exampleClient()
	defer closed()
	name, err := backfill.NewExpiry(client).Attribute(context.Background(), "Orders")
	fmt.Println(name, err)
	// Output: expires <nil>
}

// A program requests an export, and asks later whether its files are complete.
func ExampleNewExporter() {
	client, closed := exampleClient()
	defer closed()
	ctx, exporter := context.Background(), backfill.NewExporter(client)
	recovery, err := exporter.Recovery(ctx, "Orders")
	if err != nil {
		panic(err)
	}
	requested, err := exporter.Request(ctx, backfill.ExportOrder{
		TableARN: "arn:aws:dynamodb:us-east-1:000000000000:table/Orders", Bucket: "backups", At: recovery.To, Token: "first-load",
	})
	if err != nil {
		panic(err)
	}
	report, err := exporter.Report(ctx, requested.ARN)
	if err != nil {
		panic(err)
	}
	fmt.Println(report.Bucket, report.Done, report.JSON)
	// Output: backups true true
}

// A cutover writes a canary to the source, and removes it when the target has it.
func ExampleNewCanaryWriter() {
	client, closed := exampleClient()
	defer closed()
	ctx, canaries, tables := context.Background(), backfill.NewCanaryWriter(client), backfill.NewTables(client)
	canary := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("canary")}})
	if err := canaries.Put(ctx, "Orders", canary); err != nil {
		panic(err)
	}
	_, found, err := tables.Get(ctx, "Orders", canary)
	fmt.Println(found, err)
	if err := canaries.Delete(ctx, "Orders", canary); err != nil {
		panic(err)
	}
	_, found, err = tables.Get(ctx, "Orders", canary)
	fmt.Println(found, err)
	// Output:
	// true <nil>
	// false <nil>
}

// Parts of loads share limits. A part waits before it loads a page, and learns which limit it waited
// for.
func ExampleNewLimits() {
	ctx, limits := context.Background(), backfill.NewLimits(0, 0) // no limits
	forRows, forUnits, err := limits.Take(ctx, ctx, 1_000_000, 500)
	fmt.Println(forRows, forUnits, err)
	// Output: 0s 0s <nil>
}

// Loads of several tables share a throttle. It can be changed while they run.
func ExampleNewThrottle() {
	ctx, throttle := context.Background(), backfill.NewThrottle(1)
	throttle.Set(ctx, 0) // no limit
	waited, err := throttle.Take(ctx, ctx, 1_000_000)
	fmt.Println(waited, err)
	// Output: 0s <nil>
}

// A program writes the progress of loads as text. The width of a terminal makes it redraw lines.
func ExampleNewRenderer() {
	renderer := backfill.NewRenderer(os.Stdout, nil)
	if err := renderer.Finish([]backfill.Report{{Table: "Orders", Items: 1200, Estimate: 1200, Rate: 600, Lag: -1, Headroom: -1, Done: true, Took: 2 * time.Second}}); err != nil {
		panic(err)
	}
	// Output: Orders  1.2k items copied in 2.0s  600 items/s
}

// A program records the progress of loads in its own form.
func ExampleNewRecorder() {
	recorder := backfill.NewRecorder(func(r backfill.Report) { fmt.Println(r.Table, r.Items, r.Done) })
	if err := recorder.Finish([]backfill.Report{{Table: "Orders", Items: 1200, Done: true}}); err != nil {
		panic(err)
	}
	// Output: Orders 1200 true
}
