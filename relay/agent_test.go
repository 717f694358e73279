package relay_test

import (
	"net"
	"strings"
	"sync"
	"testing"

	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/dynamodb-bigtable/replicator/internal/build"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// Requests to a topic and to a subscription name the program and its version.
func TestRequestsNameTheProgram(t *testing.T) {
	var mu sync.Mutex
	agents := map[string]string{}
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		method, _ := grpc.MethodFromServerStream(stream)
		headers, _ := metadata.FromIncomingContext(stream.Context())
		mu.Lock()
		defer mu.Unlock()
		agents[method[strings.LastIndexByte(method, '/')+1:]] = strings.Join(headers["user-agent"], " ")
		return status.Error(codes.NotFound, "there is nothing")
	}))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	defer server.Stop()
	o := []option.ClientOption{option.WithEndpoint(listener.Addr().String()), option.WithoutAuthentication(), option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials()))}
	topic, err := relay.OpenTopic(t.Context(), "p", topicName, o...)
	if err != nil {
		t.Fatal(err)
	}
	defer topic.Close()
	subscription, err := relay.OpenSubscription(t.Context(), "p", "projects/p/subscriptions/s", o...)
	if err != nil {
		t.Fatal(err)
	}
	defer subscription.Close()
	if _, err := topic.Look(t.Context()); err == nil {
		t.Error("the topic exists")
	}
	if _, err := subscription.Look(t.Context()); err == nil {
		t.Error("the subscription exists")
	}
	mu.Lock()
	defer mu.Unlock()
	for _, method := range []string{"GetTopic", "GetSubscription"} {
		if !strings.HasPrefix(agents[method], build.UserAgent()+" ") {
			t.Errorf("%s has the User-Agent %q", method, agents[method])
		}
	}
}
