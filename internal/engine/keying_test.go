package engine_test

import (
	"bytes"
	"context"
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

// keyed is a topic that keeps the ordering key of the last message.
type keyed struct{ last string }

func (k *keyed) Publish(_ context.Context, messages []relay.Message) ([]error, int) {
	k.last = messages[len(messages)-1].Key
	return make([]error, len(messages)), 0
}

// The coordinator records how it wants messages to be keyed, but not while a process of an older
// version reads a shard or may take one. A reader keys messages as the record says, whatever its own
// configuration wants.
func TestTheRecordSaysHowMessagesAreKeyed(t *testing.T) {
	err := virtual.NewWorld(1, enginetest.ListingsBegin, false).Run(time.Hour, func(ctx context.Context) {
		store := &checkpointtest.Memory{}
		open := func(worker, version string) *checkpoint.Ledger {
			l, err := checkpoint.Open(ctx, store, "keying", checkpoint.Options{Worker: worker, ID: "l", About: checkpoint.About{Version: version}})
			must(t, err)
			return l
		}
		ledger, topic := open("w", "2"), &keyed{}
		rig := func(mode checkpoint.Mode, wanted relay.Keying) engine.Publisher {
			r := enginetest.NewRig(ledger, engine.Spec{Mapping: enginetest.OrdersMapping(t), MappingHash: "h"})
			r.Mode, r.Topic, r.Keying, r.Timing = mode, topic, wanted, engine.Timing{}.OrDefault(ledger.Lease())
			return r.Table().Publisher
		}
		publishes, wants := rig(checkpoint.Topic, 7), rig(checkpoint.Both, 3)
		shard := checkpoint.Shard{Source: "Orders", StreamARN: "arn/L", Label: "L", ID: "s", State: checkpoint.Reading, Hop: cdc.RootHop, Generation: 2}
		item := enginetest.Keyed("i")
		subject, err := relay.Subject("Orders", item)
		must(t, err)
		check := func(name string, p engine.Publisher, want relay.Keying) {
			t.Helper()
			must(t, p.Rekey(ctx))
			state, _, err := ledger.Table(ctx, "Orders")
			must(t, err)
			publishes.See(state)
			change := cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(1), Time: task.Now(ctx), Keys: item, New: item}
			_, err = publishes.Publish(engine.Until(ctx), shard, checkpoint.Progress{}, []cdc.Change{change}, 0, engine.NewPageSlot(task.NewLimit(1), &engine.Reads{}))
			must(t, err)
			if state.OrderingBuckets != int(want) || topic.last != want.Key("Orders", subject) {
				t.Errorf("%s: %d buckets, key %q", name, state.OrderingBuckets, topic.last)
			}
		}
		must(t, rig(checkpoint.Direct, 3).FirstKeys(ctx))
		check("a mode that publishes nothing", rig(checkpoint.Direct, 3), 0)
		check("a new table", wants, 3)
		must(t, publishes.FirstKeys(ctx))
		check("a process begins", wants, 3)

		must(t, open("old", "1").ShowProcess(ctx, checkpoint.RoleStandby)) // but it knows buckets
		check("a standby of this format", publishes, 7)
		row := func(prefix string) checkpoint.Row {
			rows, err := store.Read(ctx, prefix)
			must(t, err)
			return rows[0]
		}
		swap := func(r checkpoint.Row, data []byte) {
			done, err := store.Swap(ctx, r.Key, r.Counter, r.Counter+1, data)
			if err != nil || !done {
				t.Fatal(err)
			}
		}
		remove := func(r checkpoint.Row) { swap(r, nil) }
		downgrade := func(r checkpoint.Row) {
			swap(r, bytes.ReplaceAll(r.Data, fmt.Appendf(nil, `"reads":%d`, checkpoint.Format), fmt.Appendf(nil, `"reads":%d`, checkpoint.Format-3)))
		}
		downgrade(row("keying/process/old"))
		check("an older standby", wants, 7)
		must(t, task.Sleep(ctx, time.Minute))
		check("an older standby that no longer beats", wants, 3)

		must(t, ledger.CreateShard(ctx, shard))
		_, err = ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
			s.Generation, s.Adopted, s.Listed, s.Label = 2, 2, 2, "L"
			return nil
		})
		must(t, err)
		shards, err := ledger.Shards(ctx, "Orders")
		must(t, err)
		_, err = open("old", "1").Take(ctx, shards[0], nil)
		must(t, err)
		check("a reader of this format", publishes, 7)
		check("again", wants, 3)
		downgrade(row("keying/shard/Orders/"))
		check("an older reader", publishes, 3)
		remove(row("keying/shard/Orders/"))
		check("the older reader's shard is over", publishes, 7)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
