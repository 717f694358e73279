package follow

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"cloud.google.com/go/bigtable/bttest"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// BenchmarkPage follows one shard through the loop of production: the body of GetRecords with 1,000
// small changes is decoded, folded, written under the guard and committed. The keys are Zipf
// distributed (s = 1.1) over 10,000 items. Client and server share the process, so that the
// emulator's own work counts too; the discarding server shows ours.
func BenchmarkPage(b *testing.B) {
	discard := grpc.UnaryInterceptor(func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if _, ok := req.(*bigtablepb.CheckAndMutateRowRequest); ok {
			return &bigtablepb.CheckAndMutateRowResponse{}, nil
		}
		return handler(ctx, req)
	})
	for _, target := range []struct {
		name    string
		options []grpc.ServerOption
	}{{"discarding", []grpc.ServerOption{discard}}, {"emulator", nil}} {
		b.Run(target.name, func(b *testing.B) {
			service := newPages(b)
			t := service.table(b, target.options...)
			ctx := context.Background()
			lease := service.lease(b, t)
			rows := 0
			t.Events.Applied = func(_ string, _ engine.Tally, n int) { rows += n }
			service.left = b.N
			reader := &cdc.Reader{Source: service.source(), Shard: "s"}
			b.ReportAllocs()
			b.ResetTimer()
			if err := assignerOf(t).follower.follow(engine.Until(ctx), lease, enginetest.Unfenced(), reader, &checkpoint.TableState{}, nil, nil); err != nil {
				b.Fatal(err)
			}
			records := float64(b.N * pageSize)
			b.ReportMetric(records/b.Elapsed().Seconds(), "records/s")
			b.ReportMetric(float64(rows)/records, "rows/record")
		})
	}
}

const pageSize = 1000

// pages is an HTTP server of GetRecords without a network: it makes each page from the same text
// with new sequence numbers.
type pages struct {
	random *rand.Zipf
	next   int
	left   int
}

func newPages(testing.TB) *pages {
	return &pages{random: rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 1, 9_999), next: 1}
}

func (p *pages) source() cdc.Source {
	client := dynamodbstreams.New(dynamodbstreams.Options{
		Region: "eu-west-1", BaseEndpoint: aws.String("http://localhost"), HTTPClient: p,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "x", SecretAccessKey: "x"}, nil
		}),
	})
	return cdc.NewSource(client, "arn:aws:dynamodb:eu-west-1:000000000000:table/Orders/stream/1")
}

// Do implements the client's HTTP transport.
func (p *pages) Do(r *http.Request) (*http.Response, error) {
	body := `{"ShardIterator":"i"}`
	if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".GetRecords") {
		body = p.page()
	}
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Body: io.NopCloser(strings.NewReader(body))}, nil
}

func (p *pages) page() string {
	var b strings.Builder
	b.WriteString(`{"Records":[`)
	for i := range pageSize {
		if i > 0 {
			b.WriteByte(',')
		}
		key := fmt.Sprintf(`"pk":{"S":"customer-%05d"}`, p.random.Uint64())
		image := key
		for j := range 9 {
			image += fmt.Sprintf(`,"attribute%d":{"S":"%s"}`, j, strings.Repeat("x", 40+j))
		}
		fmt.Fprintf(&b, `{"eventID":"e","eventName":"MODIFY","eventVersion":"1.1","eventSource":"aws:dynamodb","awsRegion":"eu-west-1","dynamodb":{`+
			`"ApproximateCreationDateTime":1795170000,"Keys":{%s},"NewImage":{%s},"OldImage":{%s},"SequenceNumber":"%d","SizeBytes":1000,"StreamViewType":"NEW_AND_OLD_IMAGES"}}`,
			key, image, image, p.next)
		p.next++
	}
	b.WriteString(`]`)
	if p.left--; p.left > 0 {
		b.WriteString(`,"NextShardIterator":"i"`)
	}
	b.WriteString(`}`)
	return b.String()
}

// table is a table whose target is a Bigtable server in this process.
func (p *pages) table(b *testing.B, options ...grpc.ServerOption) *enginetest.Rig {
	b.Helper()
	server, err := bttest.NewServer("localhost:0", options...)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(server.Close)
	conn, err := grpc.NewClient(server.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	ctx := context.Background()
	admin, err := bigtable.NewAdminClient(ctx, "p", "i", option.WithGRPCConn(conn))
	if err != nil {
		b.Fatal(err)
	}
	if err := admin.CreateTable(ctx, "orders"); err != nil {
		b.Fatal(err)
	}
	for _, family := range []string{"d", sink.LiveFamily, sink.GoneFamily} {
		if err := admin.CreateColumnFamily(ctx, "orders", family); err != nil {
			b.Fatal(err)
		}
	}
	target, err := sink.Connect(ctx, sink.Instance{Project: "p", Instance: "i"}, option.WithGRPCConn(conn))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = target.Close() })
	mapping := enginetest.OrdersMapping(b)
	ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "bench", checkpoint.Options{Worker: "w", ID: "l", Lease: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	k := enginetest.NewRig(ledger, engine.Spec{Mapping: mapping})
	k.Writer, k.Timing = sink.NewWriter(sink.Options{Table: target, Parking: noParking{}}), engine.Timing{}.OrDefault(ledger.Lease())
	return k
}

// noParking refuses to park.
type noParking struct{}

func (noParking) Park(context.Context, transform.Parked) error { panic("nothing is to be parked here") }

func (noParking) Supersede(context.Context, string, string, transform.Version) error {
	panic("nothing is parked here")
}

func (noParking) Count(context.Context, int) (int, error) { return 0, nil }

func (p *pages) lease(b *testing.B, t *enginetest.Rig) *checkpoint.Lease {
	b.Helper()
	ctx := context.Background()
	if _, err := t.Ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
		s.Generation, s.Adopted, s.Label, s.Listed = 1, 1, "1", 1
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	shard := checkpoint.Shard{Source: "Orders", Label: "1", ID: "s", State: checkpoint.Waiting, Hop: cdc.RootHop, Generation: 1}
	if err := t.Ledger.CreateShard(ctx, shard); err != nil {
		b.Fatal(err)
	}
	shards, err := t.Ledger.Shards(ctx, "Orders")
	if err != nil {
		b.Fatal(err)
	}
	lease, err := t.Ledger.Take(ctx, shards[0], nil)
	if err != nil {
		b.Fatal(err)
	}
	return lease
}

func TestBenchmarkPagesAreValid(t *testing.T) {
	p := newPages(t)
	p.left = 1
	if !json.Valid([]byte(p.page())) {
		t.Fatal("a page is no JSON")
	}
}
