package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// journal is a topic that keeps its messages.
type journal struct{ messages []relay.Message }

func (k *journal) Publish(_ context.Context, messages []relay.Message) ([]error, int) {
	k.messages = append(k.messages, messages...)
	return make([]error, len(messages)), 0
}

// Messages name the span of their publication, in a page and in a load. Without traces, or for a page
// that is not recorded, they have no such attribute. Their data is the same in all cases, so an
// applier of any version reads them.
func TestMessagesNameTheirSpan(t *testing.T) {
	err := virtual.NewWorld(1, enginetest.ListingsBegin, false).Run(time.Hour, func(ctx context.Context) {
		var data []string
		for _, traced := range []string{"off", "not recorded", "page"} {
			ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "publish", checkpoint.Options{Worker: "w", ID: "l"})
			if err != nil {
				t.Fatal(err)
			}
			topic, spans := &journal{}, &enginetest.Spans{}
			rig := enginetest.NewRig(ledger, engine.Spec{Mapping: enginetest.OrdersMapping(t), MappingHash: "h"})
			rig.Mode, rig.Topic, rig.PublishLoads, rig.Timing = checkpoint.Topic, topic, true, engine.Timing{}.OrDefault(ledger.Lease())
			life := engine.Until(ctx)
			if traced != "off" {
				rig.Tracer = spans
			}
			if traced == "page" {
				page, _ := engine.Trace(ctx, spans, engine.SpanPage, 0, engine.SpanFacts{})
				life = life.Within(page)
			}
			item := enginetest.Keyed("i")
			changes := []cdc.Change{{Event: cdc.Insert, Sequence: cdc.SequenceOf(1), Time: enginetest.ListingsBegin, Keys: item, New: item}}
			shard := checkpoint.Shard{Source: "Orders", StreamARN: "arn/L", Label: "L", ID: "s", Hop: cdc.RootHop, Generation: 2}
			publisher := rig.Table().Publisher
			if _, err := publisher.Publish(life, shard, checkpoint.Progress{}, changes, 0, new(engine.PageSlot)); err != nil {
				t.Fatal(err)
			}
			state := checkpoint.TableState{StreamARN: "arn/L", Label: "L", Generation: 2}
			if err := publisher.PublishLoad(life, state, checkpoint.Part{Number: 1}, rig.Mapping, []attribute.Item{item}, nil, enginetest.ListingsBegin); err != nil {
				t.Fatal(err)
			}
			want := []string{"", ""}
			if traced == "page" {
				want = []string{"span 1", "span 2"}
			}
			for i, m := range topic.messages {
				if got := m.Attributes[relay.TraceparentAttribute]; got != want[i] {
					t.Errorf("%s: message %d names %q, want %q", traced, i, got, want[i])
				}
				data = append(data, string(m.Data))
			}
			if tree := spans.Tree(); traced == "page" && tree != "page(publish publish)!" || traced != "page" && tree != "" {
				t.Errorf("%s: %s", traced, tree)
			}
		}
		if len(data) != 6 || data[0] != data[4] || data[1] != data[5] || data[0] != data[2] {
			t.Errorf("the data differs: %q", data)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Without a tracer a span costs nothing and changes nothing.
func TestWithoutATracerThereAreNoSpans(t *testing.T) {
	ctx := t.Context()
	allocations := testing.AllocsPerRun(100, func() {
		within, span := engine.Trace(ctx, nil, engine.SpanPage, time.Second, engine.SpanFacts{Table: "Orders", Records: 3})
		span.End(engine.SpanFacts{Rows: 2}, engine.ErrPutBack)
		if within != ctx || span.Recorded() {
			t.Error("a span without a tracer")
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations", allocations)
	}
}
