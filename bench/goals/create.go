package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/dualwrite"
	"github.com/dynamodb-bigtable/replicator/internal/config"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// serveDynamoDB prints its address and answers every request with an empty object until its input
// ends.
func serveDynamoDB(latency time.Duration) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println("http://" + listener.Addr().String())
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}()
	return http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(latency)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.Header().Set("X-Amz-Crc32", "2745614147") // of {}
		_, _ = w.Write([]byte("{}"))
	}))
}

// witness is a store with replicator's row, which names the fence's family. It is read once.
type witness struct{ fence string }

func (w witness) Read(_ context.Context, key string) ([]checkpoint.Row, error) {
	return []checkpoint.Row{{Key: key, Counter: 1, Data: []byte(`{"format":1,"by":"w","n":1,"ledger":"l","generation":1,"beat":1,"fence":"` + w.fence + `"}`)}}, nil
}

func (witness) Swap(context.Context, string, uint64, uint64, []byte) (bool, error) { return false, nil }

// application is the target as an application's process uses it.
type application struct{ *sink.Bigtable }

func (application) WitnessStore(string) checkpoint.Store { return witness{"_cdc_w0123abcd_15778080"} }

// both are the two stores of an application, in processes of their own.
type both struct {
	dynamo *dynamodb.Client
	*target
	end func()
}

func startBoth(ctx context.Context, latency time.Duration) (*both, error) {
	address, end, err := startServer("-tables", "-latency", latency.String())
	if err != nil {
		return nil, err
	}
	t, err := startTarget(ctx, latency)
	if err != nil {
		return nil, err
	}
	return &both{dynamodb.New(dynamodb.Options{Region: "eu-west-1", Credentials: credentials, BaseEndpoint: &address, RetryMaxAttempts: 1}), t, func() { end(); t.close() }}, nil
}

// plainly creates an item by the vendors' clients: a put under a condition, and a row under one.
func (s *both) plainly(ctx context.Context, image attribute.Item) error {
	item, change := map[string]types.AttributeValue{"rev": &types.AttributeValueMemberN{Value: "1795170000123"}}, bigtable.NewMutation()
	for _, a := range image.Attributes() {
		item[a.Name] = &types.AttributeValueMemberS{Value: a.Value.Text()}
		change.Set("d", a.Name, 1_795_170_000_123_000, []byte(a.Value.Text()))
	}
	change.Set("d", "rev", 1_795_170_000_123_000, []byte("1795170000123"))
	change.Set("_cdc", "v", 0, []byte("n00000001795170000123.0"))
	if _, err := s.dynamo.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: item, ReturnValues: types.ReturnValueAllOld,
		ConditionExpression: aws.String("attribute_not_exists(#v)"), ExpressionAttributeNames: map[string]string{"#v": "rev"}}); err != nil {
		return err
	}
	held := bigtable.ChainFilters(bigtable.ColumnRangeFilter("_cdc", "v", "v\x00"), bigtable.ValueRangeFilter([]byte("n00000001795170000123.0"), nil))
	pk, _ := image.Get("pk")
	return s.apply(ctx, pk.Text(), bigtable.NewCondMutation(held, nil, change))
}

// creating measures dualwrite's Put of a new item beside the two conditional writes that any
// program needs.
func creating(ctx context.Context, b *bench) error {
	const row = "create an item in both stores"
	if b.skips(row) {
		return nil
	}
	cfg, err := config.Parse("bench.yaml", []byte("version: 1\nsource: { region: us-east-1 }\ntarget: { project: p, instance: i }\n"+
		"tables: [{ from: Orders, to: orders, families: { d: maxversions=1 } }]\ndual_writes: { version_attribute: rev }\n"), os.LookupEnv)
	if err != nil {
		return err
	}
	m, err := cfg.Tables[0].Mapping([]transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
	if err != nil {
		return err
	}
	created := 0
	image := func() attribute.Item {
		created++
		list := []attribute.Attribute{{Name: "pk", Value: attribute.String(fmt.Sprintf("order#%08d", created))}}
		for i := range 9 {
			list = append(list, attribute.Attribute{Name: fmt.Sprintf("attribute%d", i), Value: attribute.String(fmt.Sprintf("%050d", i))})
		}
		return attribute.NewItem(list)
	}
	for _, at := range []struct {
		latency time.Duration
		items   int
	}{{0, 10_000}, {5 * time.Millisecond, 300}} {
		s, err := startBoth(ctx, at.latency)
		if err != nil {
			return err
		}
		w := dualwrite.New(m, dualwrite.DynamoDB(s.dynamo, "Orders"), application{s.ours})
		times := func(do func() error) func() (int, error) {
			return func() (int, error) { return inFlight(1, b.times(at.items), func(int) error { return do() }) }
		}
		costs, err := b.measure(
			way{"dualwrite", times(func() error { _, err := w.Put(ctx, image()); return err })},
			way{"two conditional writes", times(func() error { return s.plainly(ctx, image()) })})
		s.end()
		if err != nil {
			return err
		}
		if at.latency == 0 {
			b.ratio(row+" / plainly", "CPU", cpu, costs[0], costs[1], atMost(1))
			b.ratio(row+" / plainly", "allocs", allocs, costs[0], costs[1], goal{})
			continue
		}
		b.ratio(fmt.Sprintf("%s, %s / plainly", row, at.latency), "ms", milliseconds, costs[0], costs[1], atMost(1.05))
	}
	return nil
}

func milliseconds(c cost) float64 { return 1000 / c.rate }
