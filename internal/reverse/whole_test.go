package reverse

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/bigtabletest"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/dualwrite"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/internal/canary"
	"github.com/dynamodb-bigtable/replicator/internal/fallback"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// embedded is a table Orders in an embedded DynamoDB, and a table orders in an embedded Bigtable.
type embedded struct {
	*testing.T
	dynamo *dynamodb.Client
	tables *backfill.Tables
	stream cdc.Source
	target *sink.Bigtable
	form   fallback.Inverse
	ledger *checkpoint.Ledger
}

func (e *embedded) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

func newEmbedded(t *testing.T) *embedded {
	t.Helper()
	e := &embedded{T: t}
	listener := httptest.NewServer(dynamodbtest.New(dynamodbtest.Options{SignatureWindow: 2 * time.Second}))
	t.Cleanup(listener.Close)
	cfg := aws.Config{Region: "eu-west-1", BaseEndpoint: &listener.URL, Credentials: credentials.NewStaticCredentialsProvider("any", "thing", "")}
	e.dynamo = dynamodb.NewFromConfig(cfg, backfill.ClientOptions)
	e.tables = backfill.NewTables(e.dynamo)
	made, err := e.dynamo.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("Orders"), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		StreamSpecification:  &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
	})
	e.must(err)
	e.stream = cdc.NewSource(dynamodbstreams.NewFromConfig(cfg, cdc.ClientOptions), *made.TableDescription.LatestStreamArn)
	server, err := bigtabletest.New(bigtabletest.Options{})
	e.must(err)
	t.Cleanup(server.Close)
	conn, err := grpc.NewClient("passthrough:///"+server.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	e.must(err)
	admin, err := bigtable.NewAdminClient(t.Context(), "p", "i", option.WithGRPCConn(conn))
	e.must(err)
	e.must(admin.CreateTableFromConf(t.Context(), &bigtable.TableConf{
		TableID: "orders", ChangeStreamRetention: 72 * time.Hour,
		Families: map[string]bigtable.GCPolicy{"cf": bigtable.NoGcPolicy(), sink.LiveFamily: bigtable.NoGcPolicy()},
	}))
	e.target, err = sink.Connect(t.Context(), sink.Instance{Project: "p", Instance: "i"}, option.WithGRPCConn(conn))
	e.must(err)
	t.Cleanup(func() { _ = e.target.Close() })
	family, err := transform.ParseFamily("cf", "never")
	e.must(err)
	mapping, err := transform.New(transform.Spec{
		Source: "Orders", Table: "orders", PrimaryKey: []transform.KeyAttribute{{Name: "id", Type: attribute.KindS}},
		Families: []transform.Family{family}, TTL: transform.TTL{Attribute: "until", Expire: transform.FollowDeletes},
	})
	e.must(err)
	seen := transform.Types{}
	seen.Add(item("x", "x", 1))
	e.form = fallback.Inverse{Mapping: mapping, Types: seen}
	if reasons := e.form.NotOffered(); len(reasons) > 0 {
		t.Fatal(reasons)
	}
	e.ledger, err = checkpoint.Open(t.Context(), &checkpointtest.Memory{}, "p", checkpoint.Options{Worker: "w", ID: "ledger", Lease: 2 * time.Second})
	e.must(err)
	return e
}

// item returns an item with a time to live, in seconds since 1970.
func item(id, state string, until int64) attribute.Item {
	number, err := attribute.Number(fmt.Sprint(until))
	if err != nil {
		panic(err)
	}
	return attribute.NewItem([]attribute.Attribute{
		{Name: "id", Value: attribute.String(id)}, {Name: "state", Value: attribute.String(state)}, {Name: "until", Value: number},
	})
}

func (e *embedded) put(i attribute.Item) {
	e.Helper()
	_, err := e.dynamo.PutItem(e.Context(), &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: dualwrite.SDKItem(i)})
	e.must(err)
}

// set writes the cells of an item's row, as the application does after the switch.
func (e *embedded) set(i attribute.Item) {
	e.Helper()
	placed, err := e.form.Addresses(i)
	e.must(err)
	cells, err := e.form.Cells(i, 1000)
	e.must(err)
	m := bigtable.NewMutation()
	for _, c := range cells {
		m.Set(c.Family, c.Qualifier, bigtable.ServerTime, c.Value)
	}
	e.must(e.target.Open("orders").Apply(e.Context(), placed[0].Row, m))
}

func (e *embedded) cell(row, family string) {
	e.Helper()
	m := bigtable.NewMutation()
	m.Set(family, "x", 1000, []byte("v"))
	e.must(e.target.Open("orders").Apply(e.Context(), row, m))
}

func (e *embedded) comparison() *Comparison {
	c := New(e.ledger, e.form.Mapping, e.form.Types, e.tables, e.target)
	c.Timings = Timings{Again: 50 * time.Millisecond, Looks: 2, Poll: 50 * time.Millisecond, Patience: 30 * time.Second}
	return c
}

// lead leads the way back until the test ends. What happened before is not read from the streams.
func (e *embedded) lead(ctx context.Context) {
	listing, err := cdc.ListShards(ctx, e.stream, "")
	e.must(err)
	for _, s := range listing.Shards {
		e.must(e.ledger.SaveFallbackShard(ctx, "Orders", &checkpoint.FallbackShard{ID: s.ID, Attempt: 1, Done: true}))
	}
	second := time.Second / 2
	both := &fallback.Bigtable{Target: e.target, Families: map[string][]string{"orders": {"cf"}}}
	l := &fallback.Leader{
		Ledger: e.ledger, Source: "Orders", Table: "orders", Form: e.form, Rows: both, Changes: both,
		Items: fallback.NewDynamoDB(e.dynamo), Stream: e.stream,
		MayWrite: func(context.Context, uint32) (bool, error) { return true, nil },
		Hear: func(ctx context.Context) error {
			d, err := e.tables.Describe(ctx, "Orders")
			e.ledger.Heard(ctx, d.At)
			return err
		},
		Timings: fallback.Timings{Clocks: second, Execution: second, Spare: second, Before: time.Millisecond, Save: second / 5, Suspects: second / 5, Heartbeat: time.Second},
	}
	life, end := context.WithCancel(ctx)
	g, watch := task.NewGroup(life, 0), e.ledger.NewWatch()
	g.Go("lead", func(ctx context.Context) error {
		for ctx.Err() == nil {
			_ = l.Lead(ctx, watch)
			_ = task.Sleep(ctx, 50*time.Millisecond)
		}
		return nil
	})
	e.Cleanup(func() { end(); _ = g.Wait() })
}

// Rows and items over the services' own protocols: what differs is found, the leader repairs it, and
// a gap ends.
func TestOverTheProtocols(t *testing.T) {
	e := newEmbedded(t)
	ctx := t.Context()
	never := time.Now().Add(time.Hour).Unix()
	for i := range 700 {
		same := item(fmt.Sprintf("same%03d", i), "s", never)
		e.put(same)
		e.set(same)
	}
	check := func(c *Comparison, want string) Result {
		t.Helper()
		r, err := c.Compare(ctx)
		if err != nil || counts(r) != want {
			t.Fatalf("%s, want %s: %v %+v", counts(r), want, err, r.Findings)
		}
		return r
	}
	check(e.comparison(), "rows 700 items 700")
	e.put(item("changed", "old", never))
	e.set(item("changed", "new", never))
	e.set(item("missing", "s", never))
	e.set(item("expired", "s", time.Now().Add(-time.Hour).Unix()))
	e.put(item("extra", "s", never))
	e.cell("extra", sink.LiveFamily)
	e.cell(transform.WitnessKeyOf("Orders"), sink.LiveFamily)
	e.put(canary.New("ledger", "Orders").Item(7, e.form.PrimaryKey, 1, "once"))
	e.cell("unreadable", "cf") // no type of its attribute is known
	found := "rows 704 items 702 different 1 missing 1 extra 1 unreadable 1"
	frozen := e.comparison()
	frozen.Frozen = true
	check(frozen, found)
	check(e.comparison(), found)

	seen, err := e.ledger.UpdateFallback(ctx, "Orders", 0, func(f *checkpoint.Fallback) error {
		f.Attempt, f.State, f.From, f.Since = 1, checkpoint.FallbackGap, time.Now(), time.Now()
		f.Window, f.Wait = 2*time.Second, 3500*time.Millisecond
		return nil
	})
	e.must(err)
	e.lead(ctx)
	check(e.comparison(), found)
	repair := e.comparison()
	repair.Repair = true
	r := check(repair, "rows 704 items 702 parked 1 repaired 3")
	if f, healed, err := e.ledger.KeepReverse(ctx, seen, r.ReverseResult); err != nil || !healed || f.State != checkpoint.FallbackFollowing {
		t.Errorf("healed %v, %+v, %v", healed, f, err)
	}
	check(e.comparison(), "rows 704 items 702 parked 1")
	key, err := e.form.Key("changed")
	e.must(err)
	if got, exists, err := e.tables.Get(ctx, "Orders", key); err != nil || !exists || !got.Equal(item("changed", "new", never)) {
		t.Errorf("the changed item is %v, %v", exists, err)
	}
	e.must(e.target.Open("orders").Apply(ctx, "unreadable", func() *bigtable.Mutation { m := bigtable.NewMutation(); m.DeleteRow(); return m }()))
	check(e.comparison(), "rows 703 items 702")
}
