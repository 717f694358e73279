package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/relay"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// scene is a process that applies table Orders in generation 7, and the subscription that it pulls
// from, which writes down what happens.
type scene struct {
	*testing.T
	Options
	ctx     context.Context
	store   *checkpointtest.Memory
	waiting []relay.Delivery
	told    []string // acknowledgements, extensions and notes, in their order
	writes  int
	began   time.Duration
	// meanwhile, if not nil, is called at each pull with the time since applies began.
	meanwhile func(after time.Duration)
}

func playScene(t *testing.T, script func(s *scene)) {
	t.Helper()
	err := virtual.NewWorld(1, enginetest.ListingsBegin, false).Run(24*time.Hour, func(ctx context.Context) {
		s := &scene{T: t, ctx: ctx, store: &checkpointtest.Memory{}}
		ledger, err := checkpoint.Open(ctx, s.store, "applied", checkpoint.Options{Worker: "w", ID: "l"})
		s.must(err)
		spec := engine.Spec{Mapping: enginetest.OrdersMapping(t), MappingHash: "h"}
		s.Options = Options{Ledger: ledger, Subscription: s, Tables: []engine.Spec{spec}, Pulls: 1, Pull: 1,
			Writer: sink.NewWriter(sink.Options{Table: s, Timeout: 30 * time.Second})}
		s.change(func(state *checkpoint.TableState) {
			state.Generation, state.MappingHash, state.Apply = 7, "h", checkpoint.Topic
		})
		s.must((fence.Fence{Ledger: ledger}).Open(ctx, spec.Mapping.Tables()...))
		s.store.OnSwap = func(_ context.Context, key string, do func() bool) (bool, error) {
			if strings.Contains(key, "/applied/") {
				s.told = append(s.told, "note")
			}
			return do(), nil
		}
		script(s)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) change(f func(state *checkpoint.TableState)) {
	s.Helper()
	_, err := s.Ledger.UpdateTable(s.ctx, "Orders", func(state *checkpoint.TableState) error { f(state); return nil })
	s.must(err)
}

// message leaves the number-th change of the shard in the subscription.
func (s *scene) message(number uint64, generation uint32) {
	s.Helper()
	item := enginetest.Keyed(fmt.Sprint("i", number))
	m, _, err := relay.Encode(relay.Change{Origin: relay.Origin{Ledger: "l", Table: "Orders", StreamARN: "arn", Label: "L", Shard: "s", Generation: generation, MappingHash: "h"},
		Number: number, CellTime: task.Now(s.ctx), Change: cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(number), Time: task.Now(s.ctx), Keys: item, New: item}})
	s.must(err)
	s.waiting = append(s.waiting, relay.Delivery{ID: fmt.Sprint("d", number), Data: m.Data})
}

// applies applies for so long, and ends then.
func (s *scene) applies(d time.Duration) {
	s.Helper()
	ctx, cancel := task.WithTimeout(s.ctx, d)
	defer cancel()
	s.began = task.Mono(s.ctx)
	if err := Run(ctx, s.Options); err != nil {
		s.Error(err)
	}
}

// noted tells whether a change counts as applied.
func (s *scene) noted(number uint64) bool {
	s.Helper()
	s.must(s.Ledger.MergeApplied(s.ctx, "Orders"))
	all, err := s.Ledger.Merged(s.ctx, "Orders")
	s.must(err)
	return slices.ContainsFunc(all, func(a checkpoint.Applied) bool {
		return slices.ContainsFunc(a.Runs, func(r checkpoint.Run) bool { return r.From <= number && number <= r.To })
	})
}

func (s *scene) Pull(ctx context.Context, most int) ([]relay.Delivery, error) {
	if s.meanwhile != nil {
		s.meanwhile(task.Mono(ctx) - s.began)
	}
	n := min(most, len(s.waiting))
	got := s.waiting[:n]
	s.waiting = s.waiting[n:]
	return got, task.Sleep(ctx, 10*time.Millisecond)
}

func (s *scene) Ack(_ context.Context, ids []string) error {
	s.told = append(s.told, "ack "+strings.Join(ids, " "))
	return nil
}

func (s *scene) Extend(_ context.Context, ids []string, by time.Duration) error {
	if by == 0 {
		s.told = append(s.told, "give back "+strings.Join(ids, " "))
	}
	return nil
}

// Apply counts the writes of the target, which takes all.
func (s *scene) Apply(context.Context, *sink.Request) (bool, error) { s.writes++; return true, nil }
