package sink_test

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/bigtabletest"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// exampleInstance starts an embedded Bigtable.
func exampleInstance() (in sink.Instance, closed func()) {
	server, err := bigtabletest.New(bigtabletest.Options{})
	if err != nil {
		panic(err)
	}
	return sink.Instance{Project: "my-project", Instance: "my-instance", Emulator: server.Addr()}, func() { server.Close() }
}

// A program creates missing tables. It never alters those that exist.
func ExampleConnectAdmin() {
	in, closed := exampleInstance()
	defer closed()
	ctx := context.Background()
	admin, err := sink.ConnectAdmin(ctx, in)
	if err != nil {
		panic(err)
	}
	defer admin.Close()
	specs := []sink.TableSpec{sink.TargetSpec("orders", 14*24*time.Hour, "d")}
	for range 2 {
		made, err := admin.Prepare(ctx, specs, true)
		fmt.Println(made.Tables, err)
	}
	// Output:
	// [orders] <nil>
	// [] <nil>
}

// A program connects to an instance, and waits until it answers. Emulator is for tests.
func ExampleConnect() {
	in, closed := exampleInstance()
	defer closed()
	ctx := context.Background()
	target, err := sink.Connect(ctx, in)
	if err != nil {
		panic(err)
	}
	defer target.Close()
	fmt.Println(target.Ping(ctx))
	// Output: <nil>
}

// A process proves that it may write to a target table before it writes. The gate records the number
// of the fence under which it will write.
func ExampleNewGate() {
	gate := sink.NewGate(func(_ context.Context, marks map[string]sink.Mark) error {
		fmt.Println("recorded number", marks["orders"].Number) // in production in the ledger
		return nil
	})
	read := func(context.Context, string) (sink.Mark, error) {
		return sink.Mark{Family: "_cdc_w7", Number: 7}, nil // in production from the ledger
	}
	right := func(context.Context) error {
		fmt.Println("the lease is held") // in production a write of the lease's row
		return nil
	}
	_, err := sink.Prove(context.Background(), gate, []string{"orders"}, read, right)
	fmt.Println(err, gate.Traffic("orders").InFlight)
	// Output:
	// recorded number 7
	// the lease is held
	// <nil> false
}

// A Reader makes rows from stored cells. Cells of replicator's families are not data.
func ExampleNewRow() {
	row := sink.NewRow("order#7", []transform.Cell{
		{Family: sink.LiveFamily, Qualifier: "other", Value: []byte("1")},
		{Family: "d", Qualifier: "total", Value: []byte("15")},
	})
	fmt.Println(row.Key, len(row.Cells), len(row.Own))
	// Output: order#7 1 1
}
