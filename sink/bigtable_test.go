package sink_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"cloud.google.com/go/bigtable/bttest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/transform"
)

func newOf[T any](*T) *T { return new(T) }

// retryMe returns an error of a code that no retry fixes, with details that ask for an immediate
// retry.
func retryMe(code codes.Code, message string) error {
	s, err := status.New(code, message).WithDetails(newOf((&bigtablepb.ErrorResponse{}).RetryInfo))
	if err != nil {
		panic(err)
	}
	return s.Err()
}

// H50: neither this package nor the client follows a RetryInfo on a permanent error: one request,
// one answer.
func TestH50_RetryInfoOnAPermanentErrorIsNotFollowed(t *testing.T) {
	calls := map[string]int{}
	e := startEmulator(t, grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		if strings.HasPrefix(info.FullMethod, "/google.bigtable.v2.") {
			calls[info.FullMethod[strings.LastIndexByte(info.FullMethod, '/')+1:]]++
			return nil, retryMe(codes.FailedPrecondition, "customer-4711")
		}
		return handler(ctx, req)
	}))
	ctx := context.Background()
	r := sink.Guard(put(1, "a=1"))
	_, applied := e.Apply(ctx, &r)
	for what, err := range map[string]error{
		"apply": applied, "put": e.Records("state").Put(ctx, "k", []byte("x")), "delete": e.Records("state").Delete(ctx, "k"),
	} {
		if !sink.Is(err, sink.Permanent) || sink.Repeatable(err) || strings.Contains(err.Error(), "4711") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if calls["CheckAndMutateRow"] != 3 || len(calls) != 1 {
		t.Error(calls)
	}
}

// An item of DynamoDB's maximum size passes, and so does its largest possible row: the client's
// message size is Bigtable's.
func TestLargeItemsPass(t *testing.T) {
	t.Setenv("BIGTABLE_EMULATOR_HOST", "")
	server, err := bttest.NewServer("127.0.0.1:0", grpc.MaxRecvMsgSize(1<<28), grpc.MaxSendMsgSize(1<<28))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	connect(t, server.Addr).create(t)
	t.Setenv("BIGTABLE_EMULATOR_HOST", server.Addr) // as the program learns of an emulator
	ctx := context.Background()
	b, err := sink.Connect(ctx, instance)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	large := bytes.Repeat([]byte("x"), 17<<20)
	m := put(1)
	m.Cells = []transform.Cell{{Family: "d", Qualifier: "large", Timestamp: 1000, Value: large}}
	apply(t, b, m)
	if rows := readAll(t, b, "t"); len(rows) != 1 || !bytes.Equal(rows[0].Cells[0].Value, large) {
		t.Error("the cell is not what was written")
	}
}

// H38: a server with a smaller limit rejects the row permanently, so waiting would never end.
func TestH38_RequestLargerThanTheServerTakes(t *testing.T) {
	server, err := bttest.NewServer("127.0.0.1:0") // gRPC's default of 4 MiB
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	e := connect(t, server.Addr).create(t)
	parking := sink.NewParking(e.Records("state"), "default")
	w := sink.NewWriter(sink.Options{Table: e, Parking: parking})
	changes := page("a", "b")
	changes[0].New = attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}, {Name: "x", Value: attribute.Binary(bytes.Repeat([]byte("x"), 5<<20))}})
	b := transform.Fold(orders, changes, transform.Stamp{Generation: 1, Hop: 500_000})
	// The record is as large as the row, so it cannot be parked on this server either. That stops
	// the migration instead of losing the item.
	if err := w.Write(context.Background(), sink.Unfenced(), &b); !sink.Is(err, sink.Rejected) || sink.Repeatable(err) {
		t.Error(err)
	}
	rows := readAll(t, e, "t")
	if len(rows) != 2 || rows[0].Gone == "" || rows[1].Version == "" {
		t.Errorf("%+v", rows)
	}
}

func TestPingOfNothing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	e := connect(t, "127.0.0.1:1")
	if err := e.Ping(ctx); !sink.Is(err, sink.Unknown) {
		t.Error(err)
	}
}

// H38: parked records are kept completely in the state table.
func TestH38_ParkingInBigtable(t *testing.T) {
	e := startEmulator(t).create(t)
	testParking(t, e.Records("state"))
}

func TestStateTableWithoutRecordIsAnError(t *testing.T) {
	e := startEmulator(t).create(t)
	err := e.Records("absent").Scan(context.Background(), "x", false, func(string, []byte) error { return nil })
	if !sink.Is(err, sink.Permanent) {
		t.Error(err)
	}
	stop := errors.New("stop")
	if err := e.Records("state").Put(context.Background(), "k", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := e.Records("state").Scan(context.Background(), "k", true, func(_ string, data []byte) error {
		if data != nil {
			t.Error("keys only")
		}
		return stop
	}); err != stop {
		t.Error(err)
	}
}
