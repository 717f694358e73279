package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cloud.google.com/go/pubsub/v2/pstest"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/bigtabletest"
	"github.com/dynamodb-bigtable/replicator/dynamodbtest"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// The services are on the loopback, so these names have no meaning elsewhere.
const (
	region   = "us-east-1"
	project  = "demo"
	instance = "demo"
	// Both parts of a credential; the embedded DynamoDB accepts any credential, but not a missing
	// one.
	credential = "demo"
)

// maxMessage is the largest gRPC message that the embedded Bigtable sends. The default of 4 MiB
// is less than the largest row.
const maxMessage = 256 << 20

// services holds the two stores, and the demo's own clients.
type services struct {
	dynamo   *dynamodbtest.Server
	http     *http.Server
	endpoint string // URL of DynamoDB and its streams
	bigtable *bigtabletest.Server
	pubsub   *pstest.Server   // nil if nothing is published
	writes   *dynamodb.Client // for the application
	reads    *backfill.Tables // for the comparison
	rows     *sink.Bigtable   // for the comparison
}

// startServices starts both stores on free ports of loopback.
func startServices(ctx context.Context, seed uint64) (*services, error) {
	s := &services{dynamo: dynamodbtest.New(dynamodbtest.Options{Seed: seed, Region: region, InitialShards: 3, Control: true})}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("embedded DynamoDB: %w", err)
	}
	s.endpoint = "http://" + listener.Addr().String()
	s.http = &http.Server{Handler: s.dynamo, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.http.Serve(listener) }() // Close ends it, and its error does not matter
	if s.bigtable, err = bigtabletest.New(bigtabletest.Options{Seed: seed}); err != nil {
		return nil, errors.Join(fmt.Errorf("embedded Bigtable: %w", err), s.close())
	}
	client := aws.Config{Region: region, Credentials: credentials.NewStaticCredentialsProvider(credential, credential, ""), BaseEndpoint: &s.endpoint}
	s.writes = dynamodb.NewFromConfig(client)
	s.reads = backfill.NewTables(dynamodb.NewFromConfig(client, backfill.ClientOptions))
	conn, err := grpc.NewClient("passthrough:///"+s.bigtable.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)))
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	if s.rows, err = sink.Connect(ctx, sink.Instance{Project: project, Instance: instance}, option.WithGRPCConn(conn)); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *services) close() error {
	var failed []error
	if s.rows != nil {
		failed = append(failed, s.rows.Close())
	}
	if s.bigtable != nil {
		s.bigtable.Close()
	}
	if s.pubsub != nil {
		failed = append(failed, s.pubsub.Close())
	}
	return errors.Join(append(failed, s.http.Close())...)
}

// environment returns the variables that direct the vendors' clients to the services.
func (s *services) environment() []string {
	env := []string{
		"AWS_ENDPOINT_URL_DYNAMODB=" + s.endpoint,
		"AWS_ENDPOINT_URL_DYNAMODB_STREAMS=" + s.endpoint,
		"AWS_REGION=" + region,
		"AWS_DEFAULT_REGION=" + region, // version 1 of the AWS CLI reads only this variable
		"AWS_ACCESS_KEY_ID=" + credential,
		"AWS_SECRET_ACCESS_KEY=" + credential,
		"BIGTABLE_EMULATOR_HOST=" + s.bigtable.Addr(),
	}
	if s.pubsub != nil {
		env = append(env, "PUBSUB_EMULATOR_HOST="+s.pubsub.Addr)
	}
	return env
}

// configuration is the minimal configuration with shorter times. So a user who watches the demo
// sees changes and takeovers soon.
const configuration = `version: 1
source:
  poll: 250ms
target:
  project: ` + project + `
  instance: ` + instance + `
state:
  lease: 5s
tables:
  - from: ` + tableName + `
`

// mendsItself is the configuration section of a demo with Outage.
const mendsItself = `backfill:
  on_gap: load
`

// additions returns the configuration sections for the demo's options.
func (o *Options) additions() (text string) {
	if o.Outage {
		text += mendsItself
	}
	if o.Relay {
		text += publishes
	}
	if o.DualWrites {
		text += settles
	}
	return text
}

// writeConfiguration writes two files to dir: the workers' configuration, and an empty file for the
// AWS SDK. Without the empty file, the SDK would read the user's own configuration.
func (d *demo) writeConfiguration(dir string) (string, error) {
	path, text := filepath.Join(dir, "replicator.yaml"), configuration+d.additions()
	if d.site != nil {
		text += d.site.configuration()
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", err
	}
	return path, os.WriteFile(filepath.Join(dir, "aws"), nil, 0o600)
}

// childEnvironment returns the environment of child processes. From this process's environment it
// removes everything that concerns a cloud or configures the program. Then it adds the variables
// that direct clients to the services.
func childEnvironment(base []string, dir string, s *services) []string {
	env := slices.DeleteFunc(slices.Clone(base), func(entry string) bool {
		for _, prefix := range []string{"AWS_", "REPLICATOR_", "GOOGLE_", "BIGTABLE_", "PUBSUB_"} {
			if strings.HasPrefix(entry, prefix) {
				return true
			}
		}
		return false
	})
	empty := filepath.Join(dir, "aws")
	return append(append(env, "AWS_CONFIG_FILE="+empty, "AWS_SHARED_CREDENTIALS_FILE="+empty), s.environment()...)
}
