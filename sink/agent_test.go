package sink_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"cloud.google.com/go/bigtable/bttest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/internal/build"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// Every request to Bigtable names the program and its version: reads, guarded writes, change streams
// and administration, with the service and with an emulator.
func TestRequestsNameTheProgram(t *testing.T) {
	var mu sync.Mutex
	agents := map[string]string{}
	record := func(ctx context.Context, method string) {
		headers, _ := metadata.FromIncomingContext(ctx)
		mu.Lock()
		defer mu.Unlock()
		agents[method[strings.LastIndexByte(method, '/')+1:]] = strings.Join(headers["user-agent"], " ")
	}
	server, err := bttest.NewServer("127.0.0.1:0",
		grpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			record(ctx, info.FullMethod)
			return handler(ctx, req)
		}),
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
			record(stream.Context(), info.FullMethod)
			if strings.HasSuffix(info.FullMethod, "ChangeStreamPartitions") {
				return status.Error(codes.Unimplemented, "this server has no change streams")
			}
			return handler(srv, stream)
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	asService := []option.ClientOption{option.WithEndpoint(server.Addr), option.WithoutAuthentication(), option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials()))}
	emulated := instance
	emulated.Emulator = server.Addr
	for _, c := range []struct {
		name    string
		in      sink.Instance
		options []option.ClientOption
	}{{"service", instance, asService}, {"emulator", emulated, nil}} {
		clear(agents)
		data, err := sink.Connect(t.Context(), c.in, c.options...)
		if err != nil {
			t.Fatal(err)
		}
		admin, err := sink.ConnectAdmin(t.Context(), c.in, c.options...)
		if err != nil {
			t.Fatal(err)
		}
		// The answers do not matter here: the tables do not exist.
		_ = data.ReadRows(t.Context(), "t", sink.Prefix(""), func(sink.Row) error { return nil })
		r := sink.Guard(put(1, "a=1"))
		_, _ = data.Apply(t.Context(), &r)
		_, _ = data.ChangePartitions(t.Context(), "t")
		_, _ = admin.Lacks(t.Context(), sink.StateSpec("state", "ledger"))
		mu.Lock()
		for _, method := range []string{"ReadRows", "CheckAndMutateRow", "GenerateInitialChangeStreamPartitions", "GetTable"} {
			if !strings.HasPrefix(agents[method], build.UserAgent()+" ") {
				t.Errorf("%s: %s has the User-Agent %q; all: %v", c.name, method, agents[method], agents)
			}
		}
		mu.Unlock()
		if err := data.Close(); err != nil {
			t.Error(err)
		}
		if err := admin.Close(); err != nil {
			t.Error(err)
		}
	}
}
