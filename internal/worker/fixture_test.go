package worker

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"cloud.google.com/go/bigtable/admin/apiv2/adminpb"
	"cloud.google.com/go/bigtable/bttest"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/internal/admin"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/status"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// cluster is where the default app profile of an embedded Bigtable routes; "" says that there is no
// profile.
type cluster struct{ atomic.Value }

func (c *cluster) intercept(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	if _, ok := req.(*adminpb.GetAppProfileRequest); !ok {
		return handler(ctx, req)
	}
	if c.Load() == "" {
		return nil, grpcstatus.Error(codes.NotFound, "not found")
	}
	return &adminpb.AppProfile{RoutingPolicy: &adminpb.AppProfile_SingleClusterRouting_{SingleClusterRouting: &adminpb.AppProfile_SingleClusterRouting{
		ClusterId: c.Load().(string), AllowTransactionalWrites: true}}}, nil
}

// connected returns a silent worker that has connected a DynamoDB with a table Orders, and the
// target in cluster c1 of an embedded Bigtable.
func connected(t *testing.T) (*Worker, *cluster) {
	t.Helper()
	return connectedTo(t, dynamodbtest.New(dynamodbtest.Options{Seed: 1}))
}

// connectedTo is like connected, with the given DynamoDB and more options for Bigtable.
func connectedTo(t *testing.T, source http.Handler, options ...grpc.ServerOption) (*Worker, *cluster) {
	t.Helper()
	routed := &cluster{}
	routed.Store("c1")
	bigtable, err := bttest.NewServer("127.0.0.1:0", append(options, grpc.ChainUnaryInterceptor(routed.intercept))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bigtable.Close)
	dynamo := httptest.NewServer(source)
	t.Cleanup(dynamo.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_DYNAMODB": dynamo.URL, "AWS_ENDPOINT_URL_DYNAMODB_STREAMS": dynamo.URL,
		"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "BIGTABLE_EMULATOR_HOST": bigtable.Addr,
	} {
		t.Setenv(name, value)
	}
	createOrders(t, dynamo.URL)
	cfg, err := config.Parse("replicator.yaml", []byte("version: 1\ntarget: { project: p, instance: i }\ntables: [{ from: Orders }]\n"), nothingSet)
	if err != nil {
		t.Fatal(err)
	}
	w := &Worker{id: "w", Options: Options{Config: cfg, Log: slog.New(slog.DiscardHandler), Lines: backfill.NewRenderer(io.Discard, nil),
		Console: &terminal.Console{Env: nothingSet, Stdout: io.Discard, Stderr: io.Discard}}}
	if w.source, err = preflight.ConnectSource(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if w.target, err = preflight.ConnectTarget(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.target.Close() })
	if _, err := w.target.Admin.Prepare(t.Context(), preflight.Specs(cfg), true); err != nil {
		t.Fatal(err)
	}
	orders, err := w.source.Tables.Describe(t.Context(), "Orders")
	if err != nil {
		t.Fatal(err)
	}
	m, err := preflight.MapTable(cfg.Tables[0], orders.PrimaryKey)
	if err != nil {
		t.Fatal(err)
	}
	w.found = preflight.Found{Cluster: "c1", Tables: []preflight.Table{{Config: cfg.Tables[0], Description: orders, Mapping: m}}}
	return w, routed
}

func createOrders(t *testing.T, endpoint string) {
	t.Helper()
	api := dynamodb.New(dynamodb.Options{Region: "us-east-1", BaseEndpoint: aws.String(endpoint), Credentials: credentials.NewStaticCredentialsProvider("test", "test", "")})
	if _, err := api.CreateTable(t.Context(), &dynamodb.CreateTableInput{TableName: aws.String("Orders"), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
		StreamSpecification:  &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
	}); err != nil {
		t.Fatal(err)
	}
}

// begin opens the ledger as an earlier worker has, in cluster c1.
func begin(t *testing.T, w *Worker) *checkpoint.Ledger {
	t.Helper()
	ledger, err := w.openLedger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return ledger
}

func silentObserver() *observer {
	return newObserver(time.Now, "w", admin.NewMetrics("orders", admin.Build{}), admin.NewHealth(time.Now), slog.New(slog.DiscardHandler), backfill.NewRenderer(io.Discard, nil), nil)
}

var noon = time.Date(2026, 11, 2, 12, 0, 0, 0, time.UTC)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

func nothingSet(string) (string, bool) { return "", false }

func testConfig() *config.Config {
	return &config.Config{Name: "test", Tables: []config.Table{{From: "Orders", To: "orders"}}, Source: config.Source{Region: "eu-west-1"}, Target: config.Target{Project: "p", Instance: "i"},
		State: config.State{Lease: 15 * time.Second}}
}

// judged returns the status of one table.
func judged(in status.TableInput) *status.Document {
	l := &status.Input{Cfg: testConfig(), Tables: []config.Table{{From: "Orders", To: "Orders"}}, Inputs: []status.TableInput{in}}
	return l.Judge(nothingSet, "", noon)
}

func loadedTable() checkpoint.TableState {
	return checkpoint.TableState{Source: "Orders", Label: "L", Generation: 7, Adopted: 7, Listed: 7,
		Load: checkpoint.Load{Generation: 7, StartedAt: ago(time.Hour), DoneAt: ago(50 * time.Minute), Items: 10, Estimate: 10}}
}

// held returns a shard that a worker holds and last wrote at the given time.
func held(id, worker string, written time.Time) checkpoint.Shard {
	return checkpoint.Shard{ID: id, Label: "L", State: checkpoint.Reading, Owner: worker, Heartbeat: checkpoint.Heartbeat{WrittenAt: written}}
}
