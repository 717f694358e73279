package dualwrite_test

import (
	"context"
	"io"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable/bttest"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/dualwrite"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
	"github.com/dynamodb-bigtable/replicator/internal/worker"
	"github.com/dynamodb-bigtable/replicator/sink"
)

const (
	ranked = "version: 1\nsource: { region: us-east-1 }\ntarget: { project: p, instance: i }\n" +
		"tables: [{ from: Orders, to: orders }]\ndual_writes: { version_attribute: rev }\n"
	settled = "version: 1\nsource: { region: us-east-1 }\ntarget: { project: p, instance: i }\n" +
		"tables: [{ from: Orders, to: orders }]\ndual_writes: { settle: 1s }\n"
)

// services are both stores, a table Orders and a configuration for it.
type services struct {
	dynamo *dynamodb.Client
	file   string // replicator.yaml
	config *config.Config
	target *preflight.Target
}

func start(t *testing.T, yaml string) *services {
	t.Helper()
	dynamo := httptest.NewServer(dynamodbtest.New(dynamodbtest.Options{Seed: 1}))
	t.Cleanup(func() { dynamo.CloseClientConnections(); dynamo.Close() })
	bigtable, err := bttest.NewServer("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bigtable.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_DYNAMODB": dynamo.URL, "AWS_ENDPOINT_URL_DYNAMODB_STREAMS": dynamo.URL, "AWS_REGION": "us-east-1",
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "BIGTABLE_EMULATOR_HOST": bigtable.Addr,
		"AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere", "AWS_EC2_METADATA_DISABLED": "true",
	} {
		t.Setenv(name, value)
	}
	s := &services{file: filepath.Join(t.TempDir(), "replicator.yaml")}
	if err := os.WriteFile(s.file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	if s.config, err = config.Load(s.file, os.LookupEnv); err != nil {
		t.Fatal(err)
	}
	source, err := preflight.ConnectSource(t.Context(), s.config)
	if err != nil {
		t.Fatal(err)
	}
	s.dynamo = source.Client()
	if s.target, err = preflight.ConnectTarget(t.Context(), s.config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.target.Close() })
	key := func(name string, kind types.KeyType) types.KeySchemaElement {
		return types.KeySchemaElement{AttributeName: &name, KeyType: kind}
	}
	text := func(name string) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: &name, AttributeType: types.ScalarAttributeTypeS}
	}
	if _, err := s.dynamo.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("Orders"), BillingMode: types.BillingModePayPerRequest, AttributeDefinitions: []types.AttributeDefinition{text("pk"), text("sk")},
		KeySchema:           []types.KeySchemaElement{key("pk", types.KeyTypeHash), key("sk", types.KeyTypeRange)},
		StreamSpecification: &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: types.StreamViewTypeNewAndOldImages},
	}); err != nil {
		t.Fatal(err)
	}
	return s
}

// replicate runs a worker until everything is drained.
func (s *services) replicate(t *testing.T) {
	t.Helper()
	if log, err := s.run(t.Context(), s.config); err != nil {
		t.Fatalf("%v\n%s", err, log)
	}
}

// run runs a worker with a configuration, and accepts a changed mapping.
func (s *services) run(ctx context.Context, cfg *config.Config) (string, error) {
	var log strings.Builder
	w := worker.New(worker.Options{
		Config: cfg, AcceptMapping: true, Console: &terminal.Console{Stdout: io.Discard, Stderr: &log, Env: os.LookupEnv}, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Lines: backfill.NewRenderer(io.Discard, nil), Once: true, Idle: 50 * time.Millisecond,
	})
	err := w.Run(ctx)
	return log.String(), err
}

// open returns a writer of the table.
func (s *services) open(t *testing.T) *dualwrite.Writer {
	t.Helper()
	w, err := dualwrite.Open(t.Context(), s.file, "Orders", dualwrite.AllowEmulators)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// rows returns the target's rows of items: each cell of the mapping's families by "row
// family:column", and the version of each row by "row version", or "row gone" for a tombstone.
func (s *services) rows(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := s.target.ReadRows(t.Context(), "orders", sink.Range{}, func(r sink.Row) error {
		if strings.HasPrefix(r.Key, "_") {
			return nil
		}
		for _, c := range r.Cells {
			found[r.Key+" "+c.Family+":"+c.Qualifier] = string(c.Value)
		}
		if live, gone, _ := r.Versions(""); live > gone {
			found[r.Key+" version"] = string(live)
		} else if gone != "" {
			found[r.Key+" gone"] = string(gone)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func item(t testing.TB, json string) attribute.Item {
	t.Helper()
	i, err := attribute.UnmarshalItem([]byte(json))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

func number(i attribute.Item) string {
	value, _ := i.Get("rev")
	return value.Text()
}
