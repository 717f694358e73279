package engine_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// slow is a topic whose calls each take a while and make a limited number of messages durable.
type slow struct{ takes int }

func (s slow) Publish(ctx context.Context, messages []relay.Message) ([]error, int) {
	_ = task.Sleep(ctx, engine.Patience*3/4)
	outcomes := make([]error, len(messages))
	for i := range outcomes {
		if i >= s.takes {
			outcomes[i] = &relay.Error{Op: "Publish", Name: "t", Reason: relay.Throttled}
		}
	}
	return outcomes, 0
}

// A page whose slot another shard waits for is put back if it makes no progress for a while. A page
// that makes progress keeps its slot, however long the whole takes.
func TestAPageThatGetsOnKeepsItsPlace(t *testing.T) {
	for takes, want := range map[int]error{0: engine.ErrPutBack, 1: nil} {
		err := virtual.NewWorld(1, enginetest.ListingsBegin, false).Run(time.Hour, func(ctx context.Context) {
			ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "publish", checkpoint.Options{Worker: "w", ID: "l"})
			if err != nil {
				t.Fatal(err)
			}
			rig := enginetest.NewRig(ledger, engine.Spec{Mapping: enginetest.OrdersMapping(t), MappingHash: "h"})
			rig.Mode, rig.Topic, rig.Timing = checkpoint.Topic, slow{takes}, engine.Timing{}.OrDefault(ledger.Lease())
			var changes []cdc.Change
			for n := range uint64(5) {
				item := enginetest.Keyed(fmt.Sprint("i", n))
				changes = append(changes, cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(n + 1), Time: task.Now(ctx), Keys: item, New: item})
			}
			places := task.NewLimit(1)
			slot := engine.NewPageSlot(places, &engine.Reads{})
			slot.Held = places.TryAcquire(1)
			others, end := context.WithCancel(ctx)
			defer end()
			g := task.NewGroup(others, 0)
			g.Go("another shard", func(ctx context.Context) error { _ = places.Acquire(ctx, 1); return nil })
			shard := checkpoint.Shard{Source: "Orders", StreamARN: "arn/L", Label: "L", ID: "s", Hop: cdc.RootHop, Generation: 2}
			_, err = rig.Table().Publisher.Publish(engine.Until(ctx), shard, checkpoint.Progress{}, changes, 0, slot)
			if !errors.Is(err, want) || slot.Held != (want == nil) {
				t.Errorf("%d durable with each call: %v, the place is held %t", takes, err, slot.Held)
			}
			end()
			_ = g.Wait()
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
