package relay_test

import (
	"context"
	"fmt"
	"time"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// A publisher makes the messages of a page. It publishes them again after a crash, with the same
// numbers, so subscribers recognise them.
func ExampleNewPage() {
	keys := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("order#7")}})
	origin := relay.Origin{
		Ledger: "a-ledger", Table: "Orders", Label: "2026-11-25T10:00:00.000", Shard: "shardId-1", Generation: 1, Hop: cdc.RootHop,
		StreamARN: "arn:aws:dynamodb:eu-west-1:111122223333:table/Orders/stream/2026-11-25T10:00:00.000", MappingHash: "a-hash",
	}
	page, err := relay.NewPage(origin, relay.Number{}, []cdc.Change{
		{Event: cdc.Insert, Sequence: cdc.SequenceOf(100), Time: time.Unix(1_795_170_000, 0), Keys: keys, New: keys},
		{Event: cdc.Remove, Sequence: cdc.SequenceOf(101), Time: time.Unix(1_795_170_001, 0), Keys: keys, Old: keys},
	}, 0)
	if err != nil {
		panic(err)
	}
	for _, message := range page.Open {
		fmt.Println(message.Attributes["table"], message.Attributes["event"])
	}
	// Output:
	// Orders INSERT
	// Orders REMOVE
}

// pubSub starts a Pub/Sub in memory, with a topic and a subscription, and returns the options with
// which clients reach it.
func pubSub() (options []option.ClientOption, closed func()) {
	ctx, server := context.Background(), pstest.NewServer()
	if _, err := server.GServer.CreateTopic(ctx, &pubsubpb.Topic{Name: "projects/p/topics/changes"}); err != nil {
		panic(err)
	}
	if _, err := server.GServer.CreateSubscription(ctx, &pubsubpb.Subscription{
		Name: "projects/p/subscriptions/apply", Topic: "projects/p/topics/changes", EnableMessageOrdering: true, AckDeadlineSeconds: 60,
	}); err != nil {
		panic(err)
	}
	return []option.ClientOption{option.WithEndpoint(server.Addr), option.WithoutAuthentication(),
		option.WithGRPCDialOption(grpc.WithTransportCredentials(insecure.NewCredentials()))}, func() { _ = server.Close() }
}

// A program publishes messages. Those after a failed message with the same ordering key are not
// sent.
func ExampleOpenTopic() {
	options, closed := pubSub()
	defer closed()
	ctx := context.Background()
	topic, err := relay.OpenTopic(ctx, "p", "projects/p/topics/changes", options...)
	if err != nil {
		panic(err)
	}
	defer topic.Close()
	outcomes, blocked := topic.Publish(ctx, []relay.Message{{Data: []byte("a change"), Key: "1"}})
	fmt.Println(outcomes, blocked)
	// Output: [<nil>] 0
}

// A program pulls messages, and acknowledges them when it has applied them.
func ExampleOpenSubscription() {
	options, closed := pubSub()
	defer closed()
	ctx := context.Background()
	topic, err := relay.OpenTopic(ctx, "p", "projects/p/topics/changes", options...)
	if err != nil {
		panic(err)
	}
	defer topic.Close()
	subscription, err := relay.OpenSubscription(ctx, "p", "projects/p/subscriptions/apply", options...)
	if err != nil {
		panic(err)
	}
	defer subscription.Close()
	topic.Publish(ctx, []relay.Message{{Data: []byte("a change"), Key: "1"}})
	deliveries, err := subscription.Pull(ctx, 10)
	if err != nil {
		panic(err)
	}
	for _, delivery := range deliveries {
		fmt.Printf("%s\n", delivery.Data)
		if err := subscription.Ack(ctx, []string{delivery.ID}); err != nil {
			panic(err)
		}
	}
	// Output: a change
}
