package fallback

import (
	"context"
	"fmt"
	"math/rand/v2"
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
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

const targetName = "projects/p/instances/i/tables/orders"

// embedded is a table Orders in an embedded DynamoDB, and a table orders in an embedded Bigtable
// with a change stream.
type embedded struct {
	t        *testing.T
	dynamo   *dynamodb.Client
	streams  *dynamodbstreams.Client
	bigtable *bigtabletest.Server
	target   *sink.Bigtable
	mapping  *transform.Mapping
	store    *checkpointtest.Memory
	stream   string // ARN
}

func (e *embedded) must(err error) {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
}

func newEmbedded(t *testing.T) *embedded {
	t.Helper()
	e := &embedded{t: t, store: &checkpointtest.Memory{}}
	listener := httptest.NewServer(dynamodbtest.New(dynamodbtest.Options{SignatureWindow: 2 * time.Second}))
	t.Cleanup(listener.Close)
	cfg := aws.Config{Region: "eu-west-1", BaseEndpoint: &listener.URL, Credentials: credentials.NewStaticCredentialsProvider("any", "thing", "")}
	e.dynamo, e.streams = dynamodb.NewFromConfig(cfg, backfill.ClientOptions), dynamodbstreams.NewFromConfig(cfg, cdc.ClientOptions)
	made, err := e.dynamo.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("Orders"), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		StreamSpecification:  &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
	})
	e.must(err)
	e.stream = *made.TableDescription.LatestStreamArn
	e.bigtable, err = bigtabletest.New(bigtabletest.Options{})
	e.must(err)
	t.Cleanup(e.bigtable.Close)
	conn, err := grpc.NewClient("passthrough:///"+e.bigtable.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	e.must(err)
	admin, err := bigtable.NewAdminClient(t.Context(), "p", "i", option.WithGRPCConn(conn))
	e.must(err)
	e.must(admin.CreateTableFromConf(t.Context(), &bigtable.TableConf{
		TableID: "orders", Families: map[string]bigtable.GCPolicy{"cf": bigtable.NoGcPolicy()}, ChangeStreamRetention: 72 * time.Hour,
	}))
	e.target, err = sink.Connect(t.Context(), sink.Instance{Project: "p", Instance: "i"}, option.WithGRPCConn(conn))
	e.must(err)
	t.Cleanup(func() { _ = e.target.Close() })
	e.mapping, err = transform.NewMapping("Orders", "orders", "cf", []transform.KeyAttribute{{Name: "id", Type: attribute.KindS}})
	e.must(err)
	return e
}

// leader returns a leader of a process. Its ledger hears the source's time.
func (e *embedded) leader(ctx context.Context, name string) (*Leader, *checkpoint.Ledger) {
	ledger, err := checkpoint.Open(ctx, e.store, "p", checkpoint.Options{Worker: name, ID: "ledger", Lease: 2 * time.Second})
	e.must(err)
	tables := backfill.NewTables(e.dynamo)
	second := time.Second / 2
	both := &Bigtable{Target: e.target, Families: map[string][]string{"orders": {"cf"}}}
	seen := transform.Types{}
	seen.Add(attribute.NewItem([]attribute.Attribute{{Name: "state", Value: attribute.String("x")}, {Name: "note", Value: attribute.String("x")}}))
	return &Leader{
		Ledger: ledger, Source: "Orders", Table: "orders", Form: Inverse{e.mapping, seen}, Rows: both, Changes: both,
		Items: NewDynamoDB(e.dynamo), Stream: cdc.NewSource(e.streams, e.stream),
		MayWrite: func(context.Context, uint32) (bool, error) { return true, nil },
		Hear: func(ctx context.Context) error {
			d, err := tables.Describe(ctx, "Orders")
			ledger.Heard(ctx, d.At)
			return err
		},
		Timings: Timings{Clocks: second, Execution: second, Spare: second, Unused: second, Save: second / 5, Heartbeat: time.Second, Listing: time.Second, Poll: second / 2},
	}, ledger
}

// differing returns how many of the rows and items differ.
func (e *embedded) differing(ctx context.Context, rows map[string]map[string]string) (all []string) {
	reads := NewDynamoDB(e.dynamo)
	for key, want := range rows {
		got, exists, err := reads.Item(ctx, "Orders", attribute.NewItem([]attribute.Attribute{{Name: "id", Value: attribute.String(key)}}))
		if err != nil {
			return []string{err.Error()}
		}
		held := map[string]string{}
		for _, a := range got.Attributes() {
			held[a.Name] = a.Value.Text()
		}
		delete(held, "id")
		if exists != (want != nil) || fmt.Sprint(held) != fmt.Sprint(want) && want != nil {
			all = append(all, fmt.Sprintf("%s: row %v, item %v %v", key, want, exists, held))
		}
	}
	return all
}

// DynamoDB follows Bigtable over the services' own protocols, while partitions split and merge,
// streams break, leaders are killed, and the former state of each row is compared with a memory of
// its own.
func TestH143_OverTheProtocols(t *testing.T) {
	e := newEmbedded(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first, driver := e.leader(ctx, "driver")
	e.must(first.Hear(ctx))
	wait := first.Timings.Wait(2 * time.Second)
	_, err := driver.UpdateFallback(ctx, "Orders", 0, func(f *checkpoint.Fallback) error {
		f.Attempt, f.State, f.From = 1, checkpoint.FallbackFollowing, time.Now()
		f.Window, f.Wait = 2*time.Second, wait
		return nil
	})
	e.must(err)
	leaders := task.NewGroup(ctx, 0)
	hire := func(name string) context.CancelFunc {
		life, kill := context.WithCancel(ctx)
		l, ledger := e.leader(life, name)
		watch := ledger.NewWatch()
		leaders.Go("lead", func(context.Context) error {
			for life.Err() == nil {
				if err := l.Lead(life, watch); err != nil && life.Err() == nil {
					t.Logf("%s: %v", name, err)
				}
				_ = task.Sleep(life, 100*time.Millisecond)
			}
			return nil
		})
		return kill
	}
	kill := hire("one")
	rng := rand.New(rand.NewPCG(1, 2))
	rows, table := map[string]map[string]string{}, e.target.Open("orders")
	for i := range 400 {
		key := fmt.Sprintf("%c%d", 'a'+rng.IntN(26), rng.IntN(4))
		m := bigtable.NewMutation()
		if rng.IntN(5) == 0 {
			m.DeleteRow()
			rows[key] = nil
		} else {
			rows[key] = map[string]string{"state": fmt.Sprint(i % 3)}
			m.DeleteCellsInFamily("cf")
			m.Set("cf", "state", bigtable.ServerTime, []byte(fmt.Sprint(i%3)))
			if rng.IntN(2) == 0 {
				rows[key]["note"] = fmt.Sprint(i)
				m.Set("cf", "note", bigtable.ServerTime, []byte(fmt.Sprint(i)))
			}
		}
		e.must(table.Apply(ctx, key, m))
		switch i % 100 {
		case 20:
			e.must(e.bigtable.Split(targetName, string(rune('b'+i/20))))
		case 30: // the heartbeat of replicator is no item
			beat := bigtable.NewMutation()
			beat.Set("cf", "beat", bigtable.ServerTime, []byte("x"))
			e.must(table.Apply(ctx, transform.WitnessKeyOf("Orders"), beat))
		case 50:
			_, err := e.bigtable.CutStreams(targetName, 0)
			e.must(err)
		case 70:
			e.must(e.bigtable.Merge(targetName, string(rune('b'+i/20-2))))
		case 90:
			kill()
			kill = hire(fmt.Sprint("next", i))
		}
		_ = task.Sleep(ctx, 5*time.Millisecond)
	}
	defer kill()
	until := func(what string, is func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !is(); {
			if task.Sleep(ctx, 200*time.Millisecond) != nil || time.Now().After(end) {
				t.Fatalf("not within a minute: %s: %v", what, e.differing(ctx, rows))
			}
		}
	}
	record := func() checkpoint.Fallback {
		f, _, err := driver.Fallback(ctx, "Orders")
		e.must(err)
		return f
	}
	until("items equal rows", func() bool { return len(e.differing(ctx, rows)) == 0 })
	frozen := time.Now()
	until("the watermark passes the freeze", func() bool { return record().Settled.After(frozen) })
	_, err = driver.UpdateFallback(ctx, "Orders", 0, func(f *checkpoint.Fallback) error { f.State = checkpoint.FallbackStopping; return nil })
	e.must(err)
	until("the leader is stopped", func() bool { return record().State == checkpoint.FallbackStopped })
	if f := record(); f.Parked != 0 || f.Reason != "" {
		t.Errorf("%d parked, %q", f.Parked, f.Reason)
	}
	if all := e.differing(ctx, rows); len(all) > 0 {
		t.Errorf("after the stop: %v", all)
	}
	cancel()
	e.must(leaders.Wait())
}
