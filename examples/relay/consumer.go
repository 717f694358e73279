// Package relay shows a consumer of what `replicator relay` publishes: it keeps the newest image of
// each item of a table.
package relay

import (
	"context"

	"cloud.google.com/go/pubsub/v2"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// Item is the last change that was seen of an item.
type Item struct {
	Version string // of the change
	New     attribute.Item
}

// Store keeps items by the ordering key of their messages. Put must keep the item with the higher
// version, atomically: messages come twice, and after a crash older ones come again.
type Store interface {
	Put(ctx context.Context, key string, item Item) error
}

// Consume stores what a subscription brings until ctx ends. A message is acknowledged once it is
// stored; one that cannot be read goes to the subscription's dead letter.
func Consume(ctx context.Context, subscription *pubsub.Subscriber, store Store) error {
	return subscription.Receive(ctx, func(ctx context.Context, m *pubsub.Message) {
		change, err := relay.Decode(m.Data)
		if err == nil && change.Omitted == "" { // else there is no image: read the item, if it matters
			err = store.Put(ctx, m.OrderingKey, Item{string(change.Version()), change.New})
		}
		if err != nil {
			m.Nack()
			return
		}
		m.Ack()
	})
}
