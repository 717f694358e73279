package checkpoint_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
)

// Two workers share a ledger. One has a shard and moves its checkpoint. Once the other has taken
// over the shard, the first can no longer move the checkpoint, whatever its clock shows.
func ExampleLedger_Take() {
	ctx := context.Background()
	var store checkpointtest.Memory // in production the result of Bigtable
	var workers [2]*checkpoint.Ledger
	for i, name := range []string{"worker-1", "worker-2"} {
		var err error
		if workers[i], err = checkpoint.Open(ctx, &store, "example", checkpoint.Options{Worker: name, ID: "a-ledger"}); err != nil {
			panic(err)
		}
	}
	const stream = "arn:aws:dynamodb:eu-west-1:111122223333:table/Orders/stream/2026-11-25T10:00:00.000"
	_, err := workers[0].UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
		s.StreamARN, s.Label, s.Generation, s.Adopted = stream, "2026-11-25T10:00:00.000", 1, 1
		return nil
	})
	if err != nil {
		panic(err)
	}
	err = workers[0].CreateShard(ctx, checkpoint.Shard{
		Source: "Orders", StreamARN: stream, Label: "2026-11-25T10:00:00.000", ID: "shardId-1",
		State: checkpoint.Waiting, Hop: cdc.RootHop, Generation: 1,
	})
	if err != nil {
		panic(err)
	}
	take := func(worker *checkpoint.Ledger) *checkpoint.Lease {
		shards, err := worker.Shards(ctx, "Orders")
		if err != nil {
			panic(err)
		}
		lease, err := worker.Take(ctx, shards[0], nil)
		if err != nil {
			panic(err)
		}
		return lease
	}
	commit := func(lease *checkpoint.Lease, sequence uint64) error {
		return lease.Commit(ctx, checkpoint.Progress{Position: cdc.Position{After: cdc.SequenceOf(sequence)}})
	}

	first := take(workers[0])
	fmt.Println(commit(first, 100))
	second := take(workers[1])
	fmt.Println("goes on after", second.Shard().Position)
	fmt.Println(errors.Is(commit(first, 101), checkpoint.ErrLeaseLost))
	fmt.Println(commit(second, 102))
	// Output:
	// <nil>
	// goes on after 100
	// true
	// <nil>
}
