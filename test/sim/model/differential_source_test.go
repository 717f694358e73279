package model

import (
	"context"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/cdc/cdctest"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// outside lets callers outside a world read a stream of the model. Each call runs the world. Time
// stops between the calls, and without latency also during them.
type outside struct {
	world  *virtual.World
	stream *Stream
}

var _ cdc.Source = outside{}

func (o outside) ListPage(_ context.Context, parent, after string) (page cdc.ListingPage, err error) {
	o.run(func(ctx context.Context) { page, err = o.stream.ListPage(ctx, parent, after) })
	return page, err
}

func (o outside) Seek(_ context.Context, shard string, from cdc.Position) (at cdc.Iterator, err error) {
	o.run(func(ctx context.Context) { at, err = o.stream.Seek(ctx, shard, from) })
	return at, err
}

func (o outside) Read(_ context.Context, at cdc.Iterator) (page cdc.Page, err error) {
	o.run(func(ctx context.Context) { page, err = o.stream.Read(ctx, at) })
	return page, err
}

func (o outside) run(f func(ctx context.Context)) { runWorld(o.world, f) }

// pass lets virtual time pass.
func pass(w *virtual.World, d time.Duration) {
	runWorld(w, func(ctx context.Context) { _ = task.Sleep(ctx, d) })
}

func runWorld(w *virtual.World, f func(ctx context.Context)) {
	if err := w.Run(w.Elapsed()+100*24*time.Hour, f); err != nil {
		panic(err) // nothing here can block
	}
}

// The model must pass the conformance tests of every source.
func TestConformanceOfStream(t *testing.T) {
	cdctest.Conformance(t, func(t *testing.T) cdctest.Harness {
		w := virtual.NewWorld(1, start, false)
		table := NewTable(w, "Conformance", 1, "pk")
		key := func(pk string) attribute.Attribute {
			return attribute.Attribute{Name: "pk", Value: attribute.String(pk)}
		}
		return cdctest.Harness{
			Source: outside{w, table.Stream()},
			Put: func(_ *testing.T, pk string, n int) {
				table.Put(attribute.NewItem([]attribute.Attribute{key(pk), {Name: "n", Value: integer(n)}}))
			},
			Delete:          func(_ *testing.T, pk string) { table.Delete(attribute.NewItem([]attribute.Attribute{key(pk)})) },
			Roll:            func(_ *testing.T, shard string) { table.Stream().Roll(table.Stream().Shard(shard)) },
			ExpireIterators: func(*testing.T) { pass(w, iteratorLife+time.Second) },
			Trim: func(*testing.T) {
				pass(w, time.Second)
				table.Stream().Trim(w.Now())
			},
		}
	})
}

// embedded is the embedded DynamoDB with one table. The AWS clients reach it over HTTP, and it uses
// the clock of a world.
type embedded struct {
	t      *testing.T
	server *dynamodbtest.Server
	db     *dynamodb.Client
	stream *dynamodbstreams.Client
	clock  atomic.Int64 // Unix nanoseconds
}

const differentialTable = "Differential"

// start is the start of every world here.
var start = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

func newEmbedded(t *testing.T, at time.Time, seed uint64, shards int, view types.StreamViewType) *embedded {
	t.Helper()
	e := &embedded{t: t}
	e.clock.Store(at.UnixNano())
	e.server = dynamodbtest.New(dynamodbtest.Options{
		Clock: func() time.Time { return time.Unix(0, e.clock.Load()).UTC() }, Seed: seed, InitialShards: shards,
	})
	listener := httptest.NewServer(e.server)
	t.Cleanup(listener.Close)
	config := aws.Config{
		Region: "eu-west-1", BaseEndpoint: aws.String(listener.URL),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "key"}, nil
		}),
		Retryer: func() aws.Retryer { return aws.NopRetryer{} },
	}
	e.db, e.stream = dynamodb.NewFromConfig(config), dynamodbstreams.NewFromConfig(config)
	_, err := e.db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String(differentialTable), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
		StreamSpecification:  &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: view},
	})
	e.check(err)
	return e
}

func (e *embedded) check(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

// source returns the table's latest stream.
func (e *embedded) source() cdc.Source {
	e.t.Helper()
	d, err := e.db.DescribeTable(e.t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(differentialTable)})
	e.check(err)
	return cdc.NewSource(e.stream, aws.ToString(d.Table.LatestStreamArn))
}

// enable enables or disables the stream.
func (e *embedded) enable(view types.StreamViewType, on bool) {
	e.t.Helper()
	s := &types.StreamSpecification{StreamEnabled: aws.Bool(on)}
	if on {
		s.StreamViewType = view
	}
	_, err := e.db.UpdateTable(e.t.Context(), &dynamodb.UpdateTableInput{TableName: aws.String(differentialTable), StreamSpecification: s})
	e.check(err)
}

func (e *embedded) put(item attribute.Item) {
	e.t.Helper()
	_, err := e.db.PutItem(e.t.Context(), &dynamodb.PutItemInput{TableName: aws.String(differentialTable), Item: awsItem(item)})
	e.check(err)
}

func (e *embedded) delete(key attribute.Item) {
	e.t.Helper()
	_, err := e.db.DeleteItem(e.t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String(differentialTable), Key: awsItem(key)})
	e.check(err)
}

func awsItem(item attribute.Item) map[string]types.AttributeValue {
	m := map[string]types.AttributeValue{}
	for _, a := range item.Attributes() {
		m[a.Name] = awsValue(a.Value)
	}
	return m
}

func awsValue(v attribute.Value) types.AttributeValue {
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
		m := map[string]types.AttributeValue{}
		for _, a := range v.Members() {
			m[a.Name] = awsValue(a.Value)
		}
		return &types.AttributeValueMemberM{Value: m}
	case attribute.KindL:
		var list []types.AttributeValue
		for _, e := range v.Elements() {
			list = append(list, awsValue(e))
		}
		return &types.AttributeValueMemberL{Value: list}
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
	panic("sim: a value of no type")
}

func integer(n int) attribute.Value {
	v, err := attribute.Number(strconv.Itoa(n))
	if err != nil {
		panic(err)
	}
	return v
}
