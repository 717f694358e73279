package relay_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"cloud.google.com/go/pubsub/v2"
	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	consumer "github.com/dynamodb-bigtable/replicator/examples/relay"
)

// memory is a store that ends the test's consumer when it has seen enough.
type memory struct {
	mu    sync.Mutex
	items map[string]consumer.Item
	left  int
	done  context.CancelFunc
}

func (m *memory) Put(_ context.Context, key string, item consumer.Item) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.items[key].Version < item.Version {
		m.items[key] = item
	}
	if m.left--; m.left == 0 {
		m.done()
	}
	return nil
}

// The consumer reads the golden messages in any order, and the removed item is no longer stored.
func TestConsume(t *testing.T) {
	server := pstest.NewServer()
	defer server.Close()
	ctx := t.Context()
	const topic, subscription = "projects/p/topics/t", "projects/p/subscriptions/s"
	if _, err := server.GServer.CreateTopic(ctx, &pubsubpb.Topic{Name: topic}); err != nil {
		t.Fatal(err)
	}
	if _, err := server.GServer.CreateSubscription(ctx, &pubsubpb.Subscription{Name: subscription, Topic: topic, AckDeadlineSeconds: 10}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"remove", "modify", "dropped", "insert", "modify"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "relay", "testdata", name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		server.PublishOrdered(topic, data, nil, "item")
	}
	client, err := pubsub.NewClient(ctx, "p", option.WithEndpoint(server.Addr), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials())))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	store := &memory{items: map[string]consumer.Item{}, left: 4, done: cancel}
	if err := consumer.Consume(limited, client.Subscriber(subscription), store); err != nil {
		t.Fatal(err)
	}
	for _, got := range store.items {
		if len(store.items) != 1 || got.New.Exists() || got.Version == "" {
			t.Errorf("%+v", store.items)
		}
	}
	if len(store.items) == 0 {
		t.Error("nothing is stored")
	}
}
