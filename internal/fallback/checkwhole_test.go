package fallback

import (
	"context"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// The check finds a possible way back over the protocols of both services, and then what prevents it.
func TestCheckOverTheProtocols(t *testing.T) {
	e := newEmbedded(t)
	leader, _ := e.leader(t.Context(), "check")
	conn, err := grpc.NewClient("passthrough:///"+e.bigtable.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	e.must(err)
	admin, err := bigtable.NewAdminClient(t.Context(), "p", "i", option.WithGRPCConn(conn))
	e.must(err)
	client, err := bigtable.NewClient(t.Context(), "p", "i", option.WithGRPCConn(conn))
	e.must(err)
	t.Setenv("BIGTABLE_EMULATOR_HOST", e.bigtable.Addr())
	target, err := sink.ConnectAdmin(t.Context(), sink.Instance{Project: "p", Instance: "i"})
	e.must(err)
	t.Cleanup(func() { _ = target.Close() })

	times := leader.Timings
	// Signatures have whole seconds, so an age is up to a second more.
	times.Ages, times.Seen = Ages{1600 * time.Millisecond, 3100 * time.Millisecond, 7 * time.Second}, 10*time.Second
	check := &Check{Source: "Orders", Table: "orders", Key: AnyKey(e.mapping.PrimaryKey), Changes: leader.Changes, Target: target, Items: NewDynamoDB(e.dynamo), Timings: times,
		Now: func(context.Context) (time.Time, error) { return time.Now(), nil }}
	run := func() Checked {
		t.Helper()
		began := time.Now()
		beat := bigtable.NewMutation()
		beat.Set("cf", "beat", bigtable.Now(), []byte("x"))
		e.must(client.Open("orders").Apply(t.Context(), transform.WitnessKeyOf("Orders"), beat))
		check.Timings.Lookback = time.Since(began)
		found, err := check.Run(t.Context())
		e.must(err)
		return found
	}
	if found := run(); len(found.Problems) > 0 || found.Window != 2*time.Second || found.Wait != times.Wait(2*time.Second) {
		t.Fatalf("%+v", found)
	}
	if items, err := e.dynamo.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("Orders")}); err != nil || items.Count != 0 {
		t.Errorf("the check has written items: %v, %v", items, err)
	}

	const denied = `{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Principal":"*","Action":["dynamodb:UpdateItem","dynamodb:GetItem"],"Resource":"*"}]}`
	table, err := e.dynamo.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("Orders")})
	e.must(err)
	_, err = e.dynamo.PutResourcePolicy(t.Context(), &dynamodb.PutResourcePolicyInput{ResourceArn: table.Table.TableArn, Policy: aws.String(denied)})
	e.must(err)
	e.must(admin.UpdateTableDisableChangeStream(t.Context(), "orders"))
	found := run()
	if len(found.Problems) != 2 || found.Problems[0].Figure != "table orders has no change stream" || !strings.Contains(found.Problems[1].Figure, "dynamodb:GetItem, dynamodb:UpdateItem on table Orders") {
		t.Errorf("%+v", found)
	}

	e.must(target.EnableChangeStream(t.Context(), "orders"))
	if kept, err := target.ChangeStream(t.Context(), "orders"); err != nil || kept != sink.ChangeStreamKept {
		t.Errorf("%s, %v", kept, err)
	}
	check.Timings.Lookback = time.Hour // before the stream was enabled
	if found, err := check.Run(t.Context()); err != nil || len(found.Problems) != 2 || !strings.Contains(found.Problems[0].Figure, "cannot be read from 1h ago on") {
		t.Errorf("%+v, %v", found, err)
	}
}
