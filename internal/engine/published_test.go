package engine_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
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
	"github.com/dynamodb-bigtable/replicator/transform"
)

// kept is a topic that keeps its messages. Its first calls fail for all messages but the first.
type kept struct {
	messages []relay.Message
	fails    int
	lasts    time.Duration   // of each call
	ended    []time.Duration // when calls ended
}

func (k *kept) Publish(ctx context.Context, messages []relay.Message) ([]error, int) {
	_ = task.Sleep(ctx, k.lasts)
	k.ended = append(k.ended, task.Mono(ctx))
	outcomes := make([]error, len(messages))
	if err := context.Cause(ctx); err != nil {
		return slices.Repeat([]error{err}, len(messages)), 1
	}
	k.fails--
	for i, m := range messages {
		if k.fails >= 0 && i > 0 {
			outcomes[i] = &relay.Error{Op: "Publish", Name: "t", Reason: relay.Throttled, Code: "ResourceExhausted"}
			continue
		}
		k.messages = append(k.messages, m)
	}
	return outcomes, max(0, min(k.fails+1, 1))
}

// published plays a script with a publisher for table Orders, and collects what it reports.
func published(t *testing.T, topic relay.Topic, loads bool, script func(ctx context.Context, p engine.Publisher, told *[]string)) {
	t.Helper()
	err := virtual.NewWorld(1, enginetest.ListingsBegin, false).Run(24*time.Hour, func(ctx context.Context) {
		ledger, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "published", checkpoint.Options{Worker: "w", ID: "l"})
		must(t, err)
		var told []string
		rig := enginetest.NewRig(ledger, engine.Spec{Mapping: enginetest.OrdersMapping(t), MappingHash: "h"})
		rig.Mode, rig.Topic, rig.PublishLoads, rig.Timing = checkpoint.Topic, topic, loads, engine.Timing{}.OrDefault(ledger.Lease())
		rig.Events = engine.Events{Published: func(table string, done relay.Published) {
			told = append(told, fmt.Sprintf("%s: %d, %d blocked, failed %t", table, done.Messages, done.Blocked, done.Failed != nil))
		}}.OrSilent()
		script(ctx, rig.Table().Publisher, &told)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func decoded(t *testing.T, messages []relay.Message) (all []relay.Change) {
	t.Helper()
	for _, m := range messages {
		c, err := relay.Decode(m.Data)
		must(t, err)
		all = append(all, c)
	}
	return all
}

// Each message of a page is the whole change, in the shard's row and at the progress's number. The
// keys are those of the record. What one attempt leaves is published by the next, and each is told.
func TestAPageIsPublishedWhole(t *testing.T) {
	topic := &kept{fails: 2}
	published(t, topic, false, func(ctx context.Context, p engine.Publisher, told *[]string) {
		at := task.Now(ctx)
		shard := checkpoint.Shard{Source: "Orders", StreamARN: "arn/L", Label: "L", ID: "s", Hop: cdc.RootHop + 2, Generation: 5, Began: 3, Applied: 17}
		p.See(checkpoint.TableState{OrderingBuckets: 3})
		var changes []cdc.Change
		for n := range uint64(3) {
			item := enginetest.Keyed(fmt.Sprint("i", n))
			changes = append(changes, cdc.Change{Event: cdc.Modify, Sequence: cdc.SequenceOf(n + 40), Time: at.Add(time.Duration(n) * time.Second), Keys: item, Old: item, New: item})
		}
		cell := at.Add(time.Second)
		slot := engine.NewPageSlot(task.NewLimit(1), &engine.Reads{})
		_, err := p.Publish(engine.Until(ctx), shard, checkpoint.Progress{Applied: 99, CellTime: cell}, changes, 1, slot)
		must(t, err)
		var want []relay.Change
		for i, c := range changes {
			w := relay.Change{Origin: relay.Origin{Ledger: "l", Table: "Orders", StreamARN: "arn/L", Label: "L", Shard: "s", Generation: 5, Hop: cdc.RootHop + 2, MappingHash: "h"},
				Number: uint64(100 + i), Change: c, CellTime: cell}
			if i == 0 {
				w.Omitted, w.Old, w.New = relay.BeforeStart, attribute.Item{}, attribute.Item{}
			} else if i == 2 {
				w.CellTime = c.Time
			}
			want = append(want, w)
			subject, err := relay.Subject("Orders", c.Keys)
			must(t, err)
			if key := relay.Keying(3).Key("Orders", subject); topic.messages[i].Key != key {
				t.Errorf("message %d has key %q", i, topic.messages[i].Key)
			}
		}
		if got := decoded(t, topic.messages); !reflect.DeepEqual(got, want) {
			t.Errorf("%+v\nwant %+v", got, want)
		}
		if lines := []string{"Orders: 1, 1 blocked, failed true", "Orders: 1, 1 blocked, failed true", "Orders: 1, 0 blocked, failed false"}; !slices.Equal(*told, lines) {
			t.Errorf("told %q", *told)
		}
	})
}

// A load publishes each item as one that it read, and each change of an export at the change's own
// time. The messages have no numbers, and the record's keys. A process that publishes no loads
// sends nothing, and neither does an empty page.
func TestALoadIsPublishedWhole(t *testing.T) {
	for _, loads := range []bool{true, false} {
		topic := &kept{}
		published(t, topic, loads, func(ctx context.Context, p engine.Publisher, _ *[]string) {
			read := task.Now(ctx).Truncate(time.Second)
			early := read.Add(-time.Hour)
			state := checkpoint.TableState{Generation: 4, StreamARN: "arn/L", Label: "L", MappingHash: "other", OrderingBuckets: 5}
			part := checkpoint.Part{Number: 2, Index: 7}
			m := enginetest.OrdersMapping(t)
			item := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String("a")}, {Name: "v", Value: attribute.String("1")}})
			gone := cdc.Change{Event: cdc.Remove, Sequence: cdc.SequenceOf(uint64(early.Unix())), Time: early, Keys: enginetest.Keyed("b"), Old: enginetest.Keyed("b")}
			must(t, p.PublishLoad(engine.Until(ctx), state, part, m, nil, nil, read))
			if len(topic.ended) > 0 {
				t.Error("an empty page is published")
			}
			must(t, p.PublishLoad(engine.Until(ctx), state, part, m, nil, []cdc.Change{gone}, read))
			must(t, p.PublishLoad(engine.Until(ctx), state, part, m, []attribute.Item{item}, nil, read))
			of := relay.Origin{Ledger: "l", Table: "Orders", StreamARN: "arn/L", Label: "L", Shard: "load-2/part-7", Generation: 4, Hop: transform.LoadHop, MappingHash: "h"}
			want := []relay.Change{
				{Origin: of, Loaded: true, Change: gone, CellTime: early},
				{Origin: of, Loaded: true, CellTime: read, Change: cdc.Change{Event: cdc.Insert, Sequence: transform.LoadVersion(4, read).Sequence(), Time: read, Keys: enginetest.Keyed("a"), New: item}},
			}
			if !loads {
				want = nil
			}
			if got := decoded(t, topic.messages); !reflect.DeepEqual(got, want) {
				t.Errorf("loads %t: %+v\nwant %+v", loads, got, want)
			}
			for i, m := range topic.messages {
				subject, err := relay.Subject("Orders", want[i].Keys)
				must(t, err)
				if m.Key != relay.Keying(5).Key("Orders", subject) {
					t.Errorf("message %d has key %q", i, m.Key)
				}
			}
		})
	}
}

// One attempt to publish ends after a minute, and the next one follows. A page of a shard that is
// lost meanwhile returns all its changes with the error.
func TestAnAttemptToPublishEnds(t *testing.T) {
	topic := &kept{lasts: time.Hour}
	published(t, topic, false, func(ctx context.Context, p engine.Publisher, _ *[]string) {
		item, since := enginetest.Keyed("i"), task.Mono(ctx)
		changes := []cdc.Change{{Event: cdc.Insert, Sequence: cdc.SequenceOf(1), Time: task.Now(ctx), Keys: item, New: item}}
		lost := errors.New("the lease is lost")
		held, lose := context.WithCancelCause(ctx)
		g := task.NewGroup(ctx, 0)
		g.Go("lose", func(ctx context.Context) error {
			defer lose(lost)
			return task.Sleep(ctx, 5*time.Minute)
		})
		shard := checkpoint.Shard{Source: "Orders", StreamARN: "arn/L", Label: "L", ID: "s", Hop: cdc.RootHop, Generation: 5}
		_, err := p.Publish(engine.Until(held), shard, checkpoint.Progress{}, changes, 0, engine.NewPageSlot(task.NewLimit(1), &engine.Reads{}))
		must(t, g.Wait())
		if !errors.Is(err, lost) || len(topic.ended) < 4 || topic.ended[0]-since != time.Minute {
			t.Errorf("%d attempts, the first after %s, %v", len(topic.ended), topic.ended[0]-since, err)
		}
	})
}

// A mode that does not publish announces nothing, and neither does an empty page.
func TestOnlyAPublishedPageIsAnnounced(t *testing.T) {
	published(t, &kept{}, false, func(ctx context.Context, p engine.Publisher, _ *[]string) {
		shard := checkpoint.Shard{Source: "Orders", StreamARN: "arn/L", Label: "L", ID: "s", State: checkpoint.Waiting, Hop: cdc.RootHop, Generation: 1}
		must(t, p.Ledger.CreateShard(ctx, shard))
		_, err := p.Ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
			s.Generation, s.Adopted, s.Listed, s.Label, s.Apply = 1, 1, 1, "L", checkpoint.Topic
			return nil
		})
		must(t, err)
		rows, err := p.Ledger.Shards(ctx, "Orders")
		must(t, err)
		lease, err := p.Ledger.Take(ctx, rows[0], nil)
		must(t, err)
		changes := []cdc.Change{{Sequence: cdc.SequenceOf(6)}, {Sequence: cdc.SequenceOf(8)}, {Sequence: cdc.SequenceOf(9)}}
		life := engine.Until(ctx)
		for _, c := range []struct {
			mode    checkpoint.Mode
			changes []cdc.Change
			want    checkpoint.Announced
		}{{checkpoint.Direct, changes, checkpoint.Announced{}}, {checkpoint.Topic, nil, checkpoint.Announced{}}, {checkpoint.Both, changes, checkpoint.Announced{First: cdc.SequenceOf(6), Through: 3}}} {
			p.Mode = c.mode
			at, err := p.Announce(life, lease, checkpoint.Progress{}, c.changes)
			must(t, err)
			if got := lease.Shard().Announced; got != c.want || at.Applied != 0 {
				t.Errorf("%v, %d changes: announced %+v, from %d", c.mode, len(c.changes), got, at.Applied)
			}
		}
		// The first announced changes were trimmed meanwhile, so the numbers continue behind them.
		at, err := p.Announce(life, lease, checkpoint.Progress{}, changes[1:])
		must(t, err)
		if got := lease.Shard().Announced; got != (checkpoint.Announced{First: cdc.SequenceOf(8), Through: 5}) || at.Applied != 3 {
			t.Errorf("trimmed: announced %+v, from %d", got, at.Applied)
		}
	})
}
