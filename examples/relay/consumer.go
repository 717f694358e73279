// Package relay is an example consumer of the messages of `replicator relay`. It keeps the newest
// image of each item of a table.
package relay

import (
	"context"

	"cloud.google.com/go/pubsub/v2"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// Item is the newest change seen of an item.
type Item struct {
	Version string // of the change
	New     attribute.Item
}

// Store keeps items by the hash that is the subject of their messages. Put must keep the item with the higher
// version, atomically: messages come twice, and after a crash older ones come again.
type Store interface {
	Put(ctx context.Context, key string, item Item) error
}

// Consume stores the messages of a subscription until ctx ends. It acknowledges a message once it
// is stored. Messages that cannot be read go to the subscription's dead letter.
func Consume(ctx context.Context, subscription *pubsub.Subscriber, store Store) error {
	return subscription.Receive(ctx, func(ctx context.Context, m *pubsub.Message) {
		change, err := relay.Decode(m.Data)
		var item string
		if err == nil {
			item, err = relay.Subject(change.Table, change.Keys)
		}
		if err == nil && change.Omitted == "" { // otherwise there is no image: read the item if you need it
			err = store.Put(ctx, item, Item{string(change.Version()), change.New})
		}
		if err != nil {
			m.Nack()
			return
		}
		m.Ack()
	})
}
