package dynamodbtest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	streamtypes "github.com/aws/aws-sdk-go-v2/service/dynamodbstreams/types"
	"github.com/aws/smithy-go"

	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
)

// testClock is a clock that moves only when it is advanced.
type testClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *testClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// start is half a second after a full second, so that rounding down shows.
var start = time.Date(2026, 11, 21, 10, 0, 0, 500_000_000, time.UTC)

// fixture is a server with a stopped clock, and its SDK clients.
type fixture struct {
	t       *testing.T
	ctx     context.Context
	server  *dynamodbtest.Server
	url     string
	clock   *testClock
	db      *dynamodb.Client
	streams *dynamodbstreams.Client
}

func newFixture(t *testing.T, opts dynamodbtest.Options) *fixture {
	t.Helper()
	clock := &testClock{now: start}
	opts.Clock = clock.Now
	server := dynamodbtest.New(opts)
	listener := httptest.NewServer(server)
	t.Cleanup(listener.Close)
	config := aws.Config{
		Region:       "eu-west-1",
		BaseEndpoint: aws.String(listener.URL),
		Credentials:  credentials.NewStaticCredentialsProvider("key", "secret", ""),
		HTTPClient:   plainBodies{listener.Client()},
		Retryer:      func() aws.Retryer { return aws.NopRetryer{} },
	}
	return &fixture{
		t: t, ctx: context.Background(), server: server, url: listener.URL, clock: clock,
		db: dynamodb.NewFromConfig(config), streams: dynamodbstreams.NewFromConfig(config),
	}
}

// plainBodies hides the WriteTo method of request bodies from net/http. Once the body is closed,
// WriteTo makes net/http close the connection during a large answer; see the server's
// waitForSender.
type plainBodies struct{ client *http.Client }

func (c plainBodies) Do(req *http.Request) (*http.Response, error) {
	if req.Body != nil {
		req.Body = struct{ io.ReadCloser }{req.Body}
	}
	return c.client.Do(req)
}

// createTable creates a table with the partition key pk (S) and, if sortKind is given, the sort key
// sk. It has a stream of the view type unless that is empty.
func (f *fixture) createTable(name string, view types.StreamViewType, sortKind types.ScalarAttributeType) {
	f.t.Helper()
	in := &dynamodb.CreateTableInput{
		TableName:            &name,
		BillingMode:          types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: "S"}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: "HASH"}},
	}
	if sortKind != "" {
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String("sk"), AttributeType: sortKind})
		in.KeySchema = append(in.KeySchema, types.KeySchemaElement{AttributeName: aws.String("sk"), KeyType: "RANGE"})
	}
	if view != "" {
		in.StreamSpecification = &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: view}
	}
	_, err := f.db.CreateTable(f.ctx, in)
	f.noError(err)
}

func (f *fixture) noError(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// wantCode fails the test unless the error is an API error of the code.
func (f *fixture) wantCode(err error, code string) {
	f.t.Helper()
	var api smithy.APIError
	if !errors.As(err, &api) {
		f.t.Fatalf("got error %v, want %s", err, code)
	}
	if api.ErrorCode() != code {
		f.t.Fatalf("got error %s (%s), want %s", api.ErrorCode(), api.ErrorMessage(), code)
	}
}

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func num(s string) types.AttributeValue { return &types.AttributeValueMemberN{Value: s} }

type attrs = map[string]types.AttributeValue

func (f *fixture) put(table string, it attrs) {
	f.t.Helper()
	_, err := f.db.PutItem(f.ctx, &dynamodb.PutItemInput{TableName: &table, Item: it})
	f.noError(err)
}

// putKeys puts the items pk = prefix0, prefix1, … with n of them.
func (f *fixture) putKeys(table, prefix string, n int) {
	f.t.Helper()
	for i := range n {
		f.put(table, attrs{"pk": str(prefix + strconv.Itoa(i))})
	}
}

func (f *fixture) remove(table string, key attrs) {
	f.t.Helper()
	_, err := f.db.DeleteItem(f.ctx, &dynamodb.DeleteItemInput{TableName: &table, Key: key})
	f.noError(err)
}

func (f *fixture) get(table string, key attrs) attrs {
	f.t.Helper()
	out, err := f.db.GetItem(f.ctx, &dynamodb.GetItemInput{TableName: &table, Key: key})
	f.noError(err)
	return out.Item
}

func (f *fixture) streamARN(table string) string {
	f.t.Helper()
	out, err := f.db.DescribeTable(f.ctx, &dynamodb.DescribeTableInput{TableName: &table})
	f.noError(err)
	return aws.ToString(out.Table.LatestStreamArn)
}

// shards lists a stream's shards over all pages.
func (f *fixture) shards(arn string) []streamtypes.Shard {
	f.t.Helper()
	var all []streamtypes.Shard
	in := &dynamodbstreams.DescribeStreamInput{StreamArn: &arn}
	for {
		out, err := f.streams.DescribeStream(f.ctx, in)
		f.noError(err)
		all = append(all, out.StreamDescription.Shards...)
		if out.StreamDescription.LastEvaluatedShardId == nil {
			return all
		}
		in.ExclusiveStartShardId = out.StreamDescription.LastEvaluatedShardId
	}
}

// onlyShard returns the id of the stream's one shard.
func (f *fixture) onlyShard(arn string) string {
	f.t.Helper()
	shards := f.shards(arn)
	if len(shards) != 1 {
		f.t.Fatalf("stream has %d shards, want 1", len(shards))
	}
	return *shards[0].ShardId
}

func (f *fixture) iterator(arn, shard string, kind streamtypes.ShardIteratorType, number string) (string, error) {
	in := &dynamodbstreams.GetShardIteratorInput{StreamArn: &arn, ShardId: &shard, ShardIteratorType: kind}
	if number != "" {
		in.SequenceNumber = &number
	}
	out, err := f.streams.GetShardIterator(f.ctx, in)
	if err != nil {
		return "", err
	}
	return *out.ShardIterator, nil
}

func (f *fixture) page(iterator string) (*dynamodbstreams.GetRecordsOutput, error) {
	return f.streams.GetRecords(f.ctx, &dynamodbstreams.GetRecordsInput{ShardIterator: &iterator})
}

// records reads a shard from the horizon to its end or to its first empty page.
func (f *fixture) records(arn, shard string) []streamtypes.Record {
	f.t.Helper()
	it, err := f.iterator(arn, shard, streamtypes.ShardIteratorTypeTrimHorizon, "")
	f.noError(err)
	var all []streamtypes.Record
	for {
		out, err := f.page(it)
		f.noError(err)
		all = append(all, out.Records...)
		if out.NextShardIterator == nil || len(out.Records) == 0 {
			return all
		}
		it = *out.NextShardIterator
	}
}

func ptr[T any](v T) *T { return &v }

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// wantControlError fails the test unless a method of Server failed with the code.
func wantControlError(t *testing.T, err error, code string) {
	t.Helper()
	var refused *dynamodbtest.Error
	if !errors.As(err, &refused) || refused.Code != code {
		t.Errorf("got error %v, want %s", err, code)
	}
}
