package checkpoint_test

import (
	"context"
	"fmt"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// An application that also writes the target reads which ledger writes there, and under which fence.
func ExampleReadWitness() {
	var store checkpointtest.Memory // in production the result of Bigtable, for the target table
	_, found, err := checkpoint.ReadWitness(context.Background(), checkpoint.Place{Store: &store, Key: transform.WitnessKeyOf("Orders")})
	fmt.Println("replicated:", found, err)
	// Output: replicated: false <nil>
}
