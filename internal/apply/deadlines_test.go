package apply

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// impatient is a subscription with one message and Pub/Sub's default deadline.
type impatient struct {
	data  []byte
	until time.Duration // the message is invisible until then
	given int
	acked func()
}

func (s *impatient) Pull(ctx context.Context, _ int) ([]relay.Delivery, error) {
	if err := task.Sleep(ctx, 10*time.Millisecond); err != nil || task.Mono(ctx) < s.until {
		return nil, err
	}
	s.given, s.until = s.given+1, task.Mono(ctx)+10*time.Second
	return []relay.Delivery{{ID: "only", Data: s.data}}, nil
}

func (s *impatient) Ack(context.Context, []string) error { s.acked(); return nil }

// Extend fails the first time.
func (s *impatient) Extend(ctx context.Context, _ []string, by time.Duration) error {
	if task.Mono(ctx) < 5*time.Second {
		return &relay.Error{Op: "ModifyAckDeadline", Name: "s", Reason: relay.Unavailable}
	}
	s.until = task.Mono(ctx) + by
	return nil
}

// A write may take any time, even with a deadline of 10 seconds. Its message is not delivered
// again, and so gets no nearer to the dead letter.
func TestASlowWriteKeepsItsMessage(t *testing.T) {
	err := virtual.NewWorld(1, enginetest.ListingsBegin, false).Run(time.Hour, func(ctx context.Context) {
		ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "slow", checkpoint.Options{Worker: "w", ID: "l"})
		if err != nil {
			t.Fatal(err)
		}
		table := engine.Spec{Mapping: enginetest.OrdersMapping(t), MappingHash: "h"}
		_, err = ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
			s.Generation, s.MappingHash, s.Apply = 7, "h", checkpoint.Topic
			return nil
		})
		if err == nil {
			err = (fence.Fence{Ledger: ledger}).Open(ctx, table.Mapping.Tables()...)
		}
		if err == nil {
			err = ledger.CreateShard(ctx, checkpoint.Shard{Source: "Orders", Label: "L", ID: "s", State: checkpoint.Waiting, Generation: 7})
		}
		item := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}})
		m, _, encoding := relay.Encode(relay.Change{Origin: relay.Origin{Ledger: "l", Table: "Orders", StreamARN: "arn", Label: "L", Shard: "s", Generation: 7, MappingHash: "h"},
			Number: 1, CellTime: task.Now(ctx), Change: cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(1), Time: task.Now(ctx), Keys: item, New: item}})
		if err != nil || encoding != nil {
			t.Fatal(err, encoding)
		}
		applying, stop := context.WithCancel(ctx)
		defer stop()
		s := &impatient{data: m.Data, acked: stop}
		err = Run(applying, Options{Ledger: ledger, Subscription: s, Tables: []engine.Spec{table},
			Writer: sink.NewWriter(sink.Options{Table: enginetest.Targets{Answered: 10 * time.Minute}, Timeout: 30 * time.Second})})
		if err != nil || s.given != 1 || task.Mono(ctx) < 10*time.Minute {
			t.Errorf("after %s the message was given %d times: %v", task.Mono(ctx), s.given, err)
		}
	})
	if err != nil {
		t.Error(err)
	}
}
