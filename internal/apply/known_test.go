package apply

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/test/known"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// knownAt is when these tests begin.
var knownAt = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// given is a subscription that gives these messages, one at each pull, and notes what is
// acknowledged.
type given struct {
	messages []relay.Delivery
	acked    []string
}

func (g *given) Pull(ctx context.Context, _ int) ([]relay.Delivery, error) {
	if len(g.messages) == 0 {
		return nil, task.Sleep(ctx, time.Second)
	}
	first := g.messages[:1]
	g.messages = g.messages[1:]
	return first, nil
}

func (g *given) Ack(_ context.Context, ids []string) error {
	g.acked = append(g.acked, ids...)
	return nil
}

func (g *given) Extend(context.Context, []string, time.Duration) error { return nil }

// A table that is paused holds up no other one whose changes come by the same topic.
func TestAPausedTableHoldsNoOtherUp(t *testing.T) {
	tables := enginetest.Specs(t, "Orders", "Users")
	topic := &given{}
	for i, table := range []string{"Orders", "Users"} {
		keys := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}})
		m, _, err := relay.Encode(relay.Change{
			Origin: relay.Origin{Ledger: "l", Table: table, StreamARN: "arn/" + table, Label: "L", Shard: table + "0", Generation: 7, Hop: cdc.RootHop}, Number: 1,
			Change: cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(uint64(i + 1)), Time: knownAt, Keys: keys, New: keys}})
		if err != nil {
			t.Fatal(err)
		}
		topic.messages = append(topic.messages, relay.Delivery{ID: table, Data: m.Data})
	}
	err := virtual.NewWorld(1, knownAt, false).Run(time.Hour, func(ctx context.Context) {
		l, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "known", checkpoint.Options{Worker: "w", ID: "l"})
		if err == nil {
			err = enginetest.Behind(1, "Orders", "Users")(ctx, l)
		}
		for _, spec := range tables {
			if err == nil {
				err = l.CheckMode(ctx, spec.Mapping.Source, checkpoint.Topic, true)
			}
			if err == nil {
				_, err = l.UpdateTarget(ctx, spec.Mapping.Table, func(t *checkpoint.Target) error { t.Fence = 7; return nil })
			}
		}
		if err == nil {
			_, err = l.PauseTable(ctx, "Orders", "its target is resized", knownAt)
		}
		if err != nil {
			t.Error(err)
			return
		}
		limited, cancel := task.WithTimeout(ctx, 10*time.Minute)
		defer cancel()
		writer := sink.NewWriter(sink.Options{Table: enginetest.Targets{}, InFlight: 16})
		if err := Run(limited, Options{Ledger: l, Writer: writer, Subscription: topic, Tables: tables, Pulls: 1, Pull: 1}); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	known.Defect(t, 46, "after ten minutes the message of the other table is not applied",
		known.Expect(slices.Contains(topic.acked, "Users"), "after ten minutes the message of the other table is not applied"))
}
