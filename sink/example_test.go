package sink_test

import (
	"context"
	"fmt"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// A page of changes becomes rows. A late or repeated page changes nothing.
func ExampleWriter_Write() {
	m, err := transform.NewMapping("Orders", "orders", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
	if err != nil {
		panic(err)
	}
	var target sinktest.Memory // in production the result of Connect
	target.Create("orders", "d")
	writer := sink.NewWriter(sink.Options{Table: &target, Parking: sink.NewParking(&sinktest.Records{}, "example")})

	put := func(sequence uint64, image string) {
		item, err := attribute.UnmarshalItem([]byte(image))
		if err != nil {
			panic(err)
		}
		change := cdc.Change{
			Event: cdc.Modify, Sequence: cdc.SequenceOf(sequence), Time: time.Unix(1_795_170_000, 0),
			Keys: m.Keys(item), Old: item, New: item,
		}
		batch := transform.Fold(m, []cdc.Change{change}, transform.Stamp{Generation: 1, Hop: cdc.RootHop})
		if err := writer.Write(context.Background(), sink.Unfenced(), &batch); err != nil {
			panic(err)
		}
	}
	put(2, `{"pk":{"S":"order#7"},"total":{"N":"15"}}`)
	put(1, `{"pk":{"S":"order#7"},"total":{"N":"12"}}`)
	put(2, `{"pk":{"S":"order#7"},"total":{"N":"15"}}`)

	err = target.ReadRows(context.Background(), "orders", sink.Range{}, func(row sink.Row) error {
		for _, cell := range row.Cells {
			fmt.Printf("%s %s:%s %s\n", row.Key, cell.Family, cell.Qualifier, cell.Value)
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	// Output:
	// order#7 d:pk order#7
	// order#7 d:total 15
}
