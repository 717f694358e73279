package demo

import (
	"context"
	"fmt"

	"cloud.google.com/go/pubsub/v2/apiv1/pubsubpb"
	"cloud.google.com/go/pubsub/v2/pstest"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// topic is the topic to which the workers of a demo with Relay publish.
const topic = "projects/" + project + "/topics/changes"

// publishes is the configuration section of a demo with Relay.
const publishes = `relay:
  pubsub_topic: ` + topic + `
`

// startPubSub starts the embedded Pub/Sub with the topic.
func (s *services) startPubSub(ctx context.Context) error {
	s.pubsub = pstest.NewServer()
	_, err := s.pubsub.GServer.CreateTopic(ctx, &pubsubpb.Topic{Name: topic})
	return err
}

// consumed is a copy of the table, made only from the messages of the topic.
type consumed struct {
	messages, repeated int
	items              map[string]relay.Change // the last change of each item, by its hash
}

// consume reads the topic as a consumer would. For each item it keeps the message with the highest
// version.
func (s *services) consume() (consumed, error) {
	out := consumed{items: map[string]relay.Change{}}
	seen := map[string]bool{}
	for _, m := range s.pubsub.Messages() {
		c, err := relay.Decode(m.Data)
		if err != nil {
			return out, err
		}
		out.messages++
		if id := c.Shard + "/" + c.Sequence.String(); seen[id] {
			out.repeated++
		} else {
			seen[id] = true
		}
		item, err := relay.Subject(c.Table, c.Keys)
		if err != nil {
			return out, err
		}
		if had, ok := out.items[item]; !ok || had.Version() < c.Version() {
			out.items[item] = c
		}
	}
	return out, nil
}

// relayed compares the copy made from the topic with the source, after all writes have ended.
func (d *demo) relayed(ctx context.Context) error {
	c, err := d.services.consume()
	if err != nil {
		return err
	}
	left := map[string]relay.Change{}
	for key, change := range c.items {
		left[key] = change
	}
	wrong := 0
	for after := (attribute.Item{}); ; {
		page, err := d.services.reads.Scan(ctx, tableName, 0, 1, after, 0)
		if err != nil {
			return err
		}
		for _, item := range page.Items {
			keys := attribute.NewItem(keysOf(item))
			key, err := relay.Subject(tableName, keys)
			if err != nil {
				return err
			}
			if change, ok := left[key]; ok && !change.New.Equal(item) {
				wrong++
			}
			delete(left, key)
		}
		if after = page.Next; !after.Exists() {
			break
		}
	}
	for _, change := range left { // the last changes of items that no longer exist
		if change.New.Exists() {
			wrong++
		}
	}
	if wrong > 0 || len(c.items) == 0 {
		return fmt.Errorf("a consumer of the topic has %d of %d items that differ from the source", wrong, len(c.items))
	}
	d.say("topic: %d messages, %d of them published again after the kill; a consumer that keeps the highest version of each of %d items has the source's content",
		c.messages, c.repeated, len(c.items))
	return nil
}

// keysOf returns the attributes of an item's primary key.
func keysOf(item attribute.Item) []attribute.Attribute {
	var keys []attribute.Attribute
	for _, a := range item.Attributes() {
		if a.Name == partitionKey || a.Name == sortKey {
			keys = append(keys, a)
		}
	}
	return keys
}
