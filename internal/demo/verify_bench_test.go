package demo

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// benchItems is how many items the tables of BenchmarkVerify hold.
const benchItems = 20_000

// BenchmarkVerify compares a table of the embedded services both ways, beside a plain read of both
// sides: its rate is a share of that.
func BenchmarkVerify(b *testing.B) {
	ctx := context.Background()
	s, err := startServices(ctx, 1)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.close() }()
	m := benchTable(b, s)
	c := &verify.Comparison{Mapping: m, Source: s.reads, Target: s.rows}
	read := func() time.Duration {
		began := time.Now()
		var after attribute.Item
		for more := true; more; more = after.Exists() {
			page, err := s.reads.Scan(ctx, m.Source, 0, 1, after, 0)
			if err != nil {
				b.Fatal(err)
			}
			after = page.Next
		}
		if err := s.rows.ReadRows(ctx, m.Table, sink.Range{}, func(sink.Row) error { return nil }); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	for _, way := range []verify.Way{verify.Quiet, verify.Live} {
		b.Run(string(way), func(b *testing.B) {
			var plain, compared time.Duration
			for range b.N {
				plain += read()
				began := time.Now()
				p, err := c.NewPlan(ctx, way, "", 0, []byte("key"))
				if err != nil {
					b.Fatal(err)
				}
				result, err := c.Compare(ctx, p, 2)
				if err != nil || !result.Clean() || result.Items != benchItems {
					b.Fatalf("%v: %+v", err, result.Counts)
				}
				compared += time.Since(began)
			}
			b.ReportMetric(float64(benchItems*b.N)/compared.Seconds(), "items/s")
			b.ReportMetric(float64(plain)/float64(compared), "of-plain-read")
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			b.ReportMetric(float64(memory.Sys)/(1<<20), "MiB-sys")
		})
	}
}

// benchTable fills a table and its target.
func benchTable(b *testing.B, s *services) *transform.Mapping {
	ctx := context.Background()
	key := []transform.KeyAttribute{{Name: "id", Type: attribute.KindS}}
	m, err := transform.NewMapping("Bench", "Bench", "d", key)
	if err != nil {
		b.Fatal(err)
	}
	_, err = s.writes.CreateTable(ctx, &dynamodb.CreateTableInput{TableName: aws.String("Bench"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}}})
	if err != nil {
		b.Fatal(err)
	}
	conn, err := grpc.NewClient("passthrough:///"+s.bigtable.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	admin, err := bigtable.NewAdminClient(ctx, project, instance, option.WithGRPCConn(conn))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = admin.Close() }()
	families := map[string]bigtable.Family{"d": {}, sink.LiveFamily: {}, sink.GoneFamily: {}}
	if err := admin.CreateTableFromConf(ctx, &bigtable.TableConf{TableID: "Bench", ColumnFamilies: families}); err != nil {
		b.Fatal(err)
	}
	for n := 0; n < benchItems; n += 25 {
		var puts []types.WriteRequest
		var items []attribute.Item
		for i := n; i < min(n+25, benchItems); i++ {
			id, text := fmt.Sprintf("item-%07d", i), fmt.Sprintf("a value of some length, number %d", i)
			puts = append(puts, types.WriteRequest{PutRequest: &types.PutRequest{Item: map[string]types.AttributeValue{
				"id": &types.AttributeValueMemberS{Value: id}, "text": &types.AttributeValueMemberS{Value: text}, "n": &types.AttributeValueMemberN{Value: fmt.Sprint(i)}}}})
			number, _ := attribute.Number(fmt.Sprint(i))
			items = append(items, attribute.NewItem([]attribute.Attribute{{Name: "id", Value: attribute.String(id)}, {Name: "text", Value: attribute.String(text)}, {Name: "n", Value: number}}))
		}
		if _, err := s.writes.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{"Bench": puts}}); err != nil {
			b.Fatal(err)
		}
		for _, row := range transform.Load(m, items, 1, time.Now()).Rows {
			request := sink.Guard(row)
			if _, err := s.rows.Apply(ctx, &request); err != nil {
				b.Fatal(err)
			}
		}
	}
	return m
}
