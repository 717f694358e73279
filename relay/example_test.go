package relay_test

import (
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/relay"
)

// A subscriber decodes messages and compares versions to find the newest change of an item, because
// messages come at least once. The ordering key reveals nothing about the item.
func ExampleDecode() {
	item, err := attribute.UnmarshalItem([]byte(`{"pk":{"S":"order#7"},"total":{"N":"15"}}`))
	if err != nil {
		panic(err)
	}
	keys := attribute.NewItem(item.Attributes()[:1])
	message, _, err := relay.Encode(relay.Change{
		Origin: relay.Origin{
			Ledger: "a-ledger", Table: "Orders", Label: "2026-11-25T10:00:00.000", Shard: "shardId-1", Generation: 1, Hop: cdc.RootHop,
			StreamARN: "arn:aws:dynamodb:eu-west-1:111122223333:table/Orders/stream/2026-11-25T10:00:00.000", MappingHash: "a-hash",
		},
		Number: 1, CellTime: time.Unix(1_795_170_000, 0),
		Change: cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(100), Time: time.Unix(1_795_170_000, 0), Keys: keys, New: item},
	})
	if err != nil {
		panic(err)
	}

	received, err := relay.Decode(message.Data)
	if err != nil {
		panic(err)
	}
	image, err := attribute.MarshalItem(received.New)
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s %s %s\n", received.Table, received.Event, image)
	fmt.Println(received.Version())
	// Output:
	// Orders INSERT {"pk":{"S":"order#7"},"total":{"N":"15"}}
	// 00000001.500000.0000000000000000000000000000000000000100.0001
}
