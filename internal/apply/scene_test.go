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

// scene is a process that applies table Orders in generation 7, and the subscription from which it
// pulls, which records what happens.
type scene struct {
	*testing.T
	Options
	ctx     context.Context
	store   *checkpointtest.Memory
	waiting []relay.Delivery
	told    []string // acknowledgements, extensions and notes, in order
	writes  int
	rows    []sink.Request // rows that were written
	failed  []string       // steps that failed
	pages   []string       // tables that made progress
	// answer, if not nil, returns the target's answer to a write.
	answer func(ctx context.Context, r *sink.Request) error
	began  time.Duration
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
			Writer: sink.NewWriter(sink.Options{Table: s, Timeout: 30 * time.Second}),
			Events: engine.Events{
				Retry:    func(_, step string, _ time.Duration, _ error) { s.failed = append(s.failed, step) },
				PageDone: func(table string) { s.pages = append(s.pages, table) },
			}}
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
		s.shard(func(*checkpoint.Shard) {})
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

// shard changes the row of the shard that the messages belong to; its first hundred changes are
// published.
func (s *scene) shard(change func(row *checkpoint.Shard)) {
	s.Helper()
	row := checkpoint.Shard{Source: "Orders", Label: "L", StreamARN: "arn", ID: "s", State: checkpoint.Waiting, Generation: 7, Began: 7,
		Position: cdc.SequenceOf(100), Applied: 100, FirstRead: task.Now(s.ctx), EventTime: task.Now(s.ctx)}
	change(&row)
	s.must(s.Ledger.CreateShard(s.ctx, row))
}

// message adds the shard's change with that number to the subscription.
func (s *scene) message(number uint64, generation uint32) {
	s.Helper()
	s.send(number, func(c *relay.Change) { c.Generation = generation })
}

// send adds a change of generation 7 to the subscription, modified by change.
func (s *scene) send(number uint64, change func(c *relay.Change)) {
	s.Helper()
	item := enginetest.Keyed(fmt.Sprint("i", number))
	c := relay.Change{Origin: relay.Origin{Ledger: "l", Table: "Orders", StreamARN: "arn", Label: "L", Shard: "s", Generation: 7, MappingHash: "h"},
		Number: number, CellTime: task.Now(s.ctx), Change: cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(number), Time: task.Now(s.ctx), Keys: item, New: item}}
	change(&c)
	m, _, err := relay.Encode(c)
	s.must(err)
	s.waiting = append(s.waiting, relay.Delivery{ID: fmt.Sprint("d", number), Data: m.Data})
}

// applies runs the process for a time.
func (s *scene) applies(d time.Duration) {
	s.Helper()
	if err := s.ends(d); err != nil {
		s.Error(err)
	}
}

// ends runs the process for a time, or until it fails.
func (s *scene) ends(d time.Duration) error {
	s.Helper()
	ctx, cancel := task.WithTimeout(s.ctx, d)
	defer cancel()
	s.began = task.Mono(s.ctx)
	return Run(ctx, s.Options)
}

// took returns how long the process has run, or ran.
func (s *scene) took() time.Duration { return task.Mono(s.ctx) - s.began }

// noted reports whether a change counts as applied.
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

// Apply counts the writes of the target, which accepts all unless s.answer differs.
func (s *scene) Apply(ctx context.Context, r *sink.Request) (bool, error) {
	if s.answer != nil {
		if err := s.answer(ctx, r); err != nil {
			return false, err
		}
	}
	s.writes++
	s.rows = append(s.rows, *r)
	return true, nil
}
