package bigtabletest_test

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/dynamodb-bigtable/replicator/bigtabletest"
)

// A test starts the server, writes with Google's client, and splits a partition while its change
// stream is read.
func Example() {
	clock := func() time.Time { return time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC) }
	server, err := bigtabletest.New(bigtabletest.Options{Clock: clock})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	conn, err := grpc.NewClient("passthrough:///"+server.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = conn.Close() }()
	ctx := context.Background()
	admin, _ := bigtable.NewAdminClient(ctx, "project", "instance", option.WithGRPCConn(conn))
	client, _ := bigtable.NewClient(ctx, "project", "instance", option.WithGRPCConn(conn))
	err = admin.CreateTableFromConf(ctx, &bigtable.TableConf{TableID: "orders", Families: map[string]bigtable.GCPolicy{"f": bigtable.NoGcPolicy()}, ChangeStreamRetention: 24 * time.Hour})
	if err != nil {
		fmt.Println(err)
		return
	}
	order := bigtable.NewMutation()
	order.Set("f", "state", 0, []byte("paid"))
	if err := client.Open("orders").Apply(ctx, "order-1", order); err != nil {
		fmt.Println(err)
		return
	}
	const table = "projects/project/instances/instance/tables/orders"
	stream, err := bigtablepb.NewBigtableClient(conn).ReadChangeStream(ctx, &bigtablepb.ReadChangeStreamRequest{
		TableName: table,
		Partition: &bigtablepb.StreamPartition{RowRange: &bigtablepb.RowRange{}},
		StartFrom: &bigtablepb.ReadChangeStreamRequest_StartTime{StartTime: timestamppb.New(clock())},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	m, _ := stream.Recv()
	fmt.Printf("%s: %s\n", m.GetDataChange().GetRowKey(), m.GetDataChange().GetChunks()[0].GetMutation().GetSetCell().GetValue())
	_ = server.Split(table, "order-5")
	m, _ = stream.Recv()
	fmt.Println("new partitions:", len(m.GetCloseStream().GetNewPartitions()))
	// Output:
	// order-1: paid
	// new partitions: 2
}

// A program must resume a stream that breaks, and must cope with records that come again.
func ExampleServer_CutStreams() {
	server, err := bigtabletest.New(bigtabletest.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	_, err = server.CutStreams("projects/project/instances/instance/tables/orders", 0)
	fmt.Println(err)
	// Output: rpc error: code = NotFound desc = table "projects/project/instances/instance/tables/orders" not found
}
