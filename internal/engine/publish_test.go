package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
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

// In mode topic, the caller writes exactly the changes that do not fit into a message, wherever the
// dropped changes of the page end. In mode both, it writes all changes that were not dropped.
func TestChangesThatDoNotFitAreWritten(t *testing.T) {
	for name, c := range map[string]struct {
		mode    checkpoint.Mode
		dropped int
		large   []int
		written []int
	}{
		"all fit":                      {checkpoint.Topic, 0, nil, nil},
		"one does not":                 {checkpoint.Topic, 0, []int{2}, []int{2}},
		"behind dropped ones":          {checkpoint.Topic, 2, []int{2}, []int{2}},
		"the last, behind dropped":     {checkpoint.Topic, 1, []int{2, 4}, []int{2, 4}},
		"a dropped one does not count": {checkpoint.Topic, 2, []int{0, 3}, []int{3}},
		"all are dropped":              {checkpoint.Topic, 5, []int{1}, nil},
		"both":                         {checkpoint.Both, 0, []int{2}, []int{0, 1, 2, 3, 4}},
		"both, behind dropped ones":    {checkpoint.Both, 2, []int{2}, []int{2, 3, 4}},
		"direct":                       {checkpoint.Direct, 3, []int{4}, []int{3, 4}},
	} {
		err := virtual.NewWorld(1, enginetest.ListingsBegin, false).Run(time.Hour, func(ctx context.Context) {
			ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "publish", checkpoint.Options{Worker: "w", ID: "l"})
			if err != nil {
				t.Fatal(err)
			}
			rig := enginetest.NewRig(ledger, engine.Spec{Mapping: enginetest.OrdersMapping(t), MappingHash: "h"})
			rig.Mode, rig.Topic, rig.Timing = c.mode, slow{5}, engine.Timing{}.OrDefault(ledger.Lease())
			large := attribute.NewItem([]attribute.Attribute{{Name: "v", Value: attribute.String(strings.Repeat("x", relay.MaxData))}})
			var changes []cdc.Change
			for n := range 5 {
				item := enginetest.Keyed(fmt.Sprint("i", n))
				change := cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(uint64(n + 1)), Time: task.Now(ctx), Keys: item, New: item}
				if slices.Contains(c.large, n) {
					change.New = large
				}
				changes = append(changes, change)
			}
			slot := engine.NewPageSlot(task.NewLimit(1), &engine.Reads{})
			shard := checkpoint.Shard{Source: "Orders", StreamARN: "arn/L", Label: "L", ID: "s", Hop: cdc.RootHop, Generation: 2}
			written, err := rig.Table().Publisher.Publish(engine.Until(ctx), shard, checkpoint.Progress{}, changes, c.dropped, slot)
			var got []int
			for _, w := range written {
				got = append(got, slices.IndexFunc(changes, func(c cdc.Change) bool { return c.Sequence == w.Sequence }))
			}
			if err != nil || !slices.Equal(got, c.written) {
				t.Errorf("%s: %d are written, %v", name, got, err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
