package follow

import (
	"cmp"
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
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// scene is a worker that follows table Orders in generation 7, its stream, and a target, which
// writes down what happens.
type scene struct {
	*testing.T
	engine.Options
	engine.Spec
	ctx    context.Context
	world  *virtual.World
	store  *checkpointtest.Memory
	stream *stream
	room   int64 // for pages that are to be settled
	// rechecks, if not nil, makes the rechecks of shards.
	rechecks func() Recheck
	began    time.Duration
	wrote    []wrote
	told     []string // events, in their order
	failed   []string // steps that failed
	halted   error    // why a clean stop began
	ticked   int
	parts    *Assigner
	table    *engine.Table
	// answer, if not nil, gives the target's answer to a write.
	answer func(ctx context.Context, r *sink.Request) error
}

// wrote is a row that was written.
type wrote struct {
	key   string
	n     int // of its change
	exact bool
	after time.Duration // since the worker began
	sent  sink.Request
}

func playScene(t *testing.T, script func(s *scene)) {
	t.Helper()
	world := virtual.NewWorld(1, enginetest.ListingsBegin, false)
	world.StepLimit = 1_000_000
	err := world.Run(72*time.Hour, func(ctx context.Context) {
		s := &scene{T: t, ctx: ctx, world: world, store: &checkpointtest.Memory{}, room: engine.SettleBytes}
		s.stream = &stream{scene: s, shards: map[string]*history{}, size: 1, delay: 10 * time.Millisecond}
		s.Ledger = s.open("w")
		s.Spec = engine.Spec{Mapping: enginetest.OrdersMapping(t), MappingHash: "h"}
		s.Floors, s.Open = &engine.Floors{}, func(string) cdc.Source { return s.stream }
		s.Writer = sink.NewWriter(sink.Options{Table: s, Timeout: 30 * time.Second})
		s.Events = s.events()
		s.change(func(state *checkpoint.TableState) {
			state.StreamARN, state.Label, state.Generation, state.Adopted, state.Base, state.Listed, state.MappingHash = "arn", "L", 7, 7, 7, 7, "h"
		})
		s.must((fence.Fence{Ledger: s.Ledger}).Open(ctx, s.Mapping.Tables()...))
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

// open opens the ledger for a worker.
func (s *scene) open(worker string) *checkpoint.Ledger {
	ledger, err := checkpoint.Open(s.ctx, s.store, "follows", checkpoint.Options{Worker: worker, ID: "l"})
	s.must(err)
	ledger.Heard(s.ctx, s.world.Now())
	return ledger
}

func (s *scene) events() engine.Events {
	tell := func(format string, args ...any) { s.told = append(s.told, fmt.Sprintf(format, args...)) }
	return engine.Events{
		ShardTaken: func(_, shard string, epoch uint64) { tell("taken %s", shard) },
		ShardLeft: func(_, shard string, err error) {
			if tell("left %s", shard); err != nil {
				s.told[len(s.told)-1] += " failed"
			}
		},
		ShardDone: func(_, shard string) { tell("done %s", shard) },
		Gap:       func(_, shard, _ string) { tell("gap %s", shard) },
		Retry:     func(_, step string, _ time.Duration, _ error) { s.failed = append(s.failed, step) },
		Tick:      func() { s.ticked++ },
	}.OrSilent()
}

func (s *scene) change(f func(state *checkpoint.TableState)) {
	s.Helper()
	_, err := s.Ledger.UpdateTable(s.ctx, "Orders", func(state *checkpoint.TableState) error { f(state); return nil })
	s.must(err)
}

// state is the table's record.
func (s *scene) state() checkpoint.TableState {
	state, _, err := s.Ledger.Table(s.ctx, "Orders")
	s.must(err)
	return state
}

// shard adds one to the stream and to the ledger.
func (s *scene) shard(id, parent string, edit ...func(*checkpoint.Shard)) {
	s.Helper()
	s.stream.shards[id] = &history{}
	row := checkpoint.Shard{Source: "Orders", StreamARN: "arn", Label: "L", ID: id, Parent: parent, State: checkpoint.Waiting, Hop: cdc.RootHop, Generation: 7}
	for _, change := range edit {
		change(&row)
	}
	s.must(s.Ledger.CreateShard(s.ctx, row))
}

// row is a shard as the ledger has it.
func (s *scene) row(id string) checkpoint.Shard {
	s.Helper()
	shards, err := s.Ledger.Shards(s.ctx, "Orders")
	s.must(err)
	i := slices.IndexFunc(shards, func(row checkpoint.Shard) bool { return row.ID == id })
	if i < 0 {
		s.Fatalf("no shard %s", id)
	}
	return shards[i]
}

// at is the number of the last change that the checkpoint of shard s covers; 0 at the horizon.
func (s *scene) at() int {
	s.Helper()
	return number(s.row("s").Position)
}

func number(sequence cdc.SequenceNumber) (n int) {
	_, _ = fmt.Sscan(sequence.String(), &n)
	return n
}

// put adds changes of these keys to shard s, now.
func (s *scene) put(keys ...string) { s.stream.put("s", keys...) }

// after does something when the worker has worked for so long.
func (s *scene) after(d time.Duration, do func()) {
	s.world.Go("script", func(ctx context.Context) {
		if task.Sleep(ctx, d) == nil {
			do()
		}
	})
}

// prepares makes the parts of the worker.
func (s *scene) prepares() {
	s.Options.Timing = s.Options.Timing.OrDefault(s.Ledger.Lease())
	worker := engine.NewWorker(&s.Options, func(err error) { s.halted = cmp.Or(s.halted, err) })
	s.table = engine.NewTable(worker, s.Spec)
	if s.Once {
		worker.Completion.Await("Orders", &s.table.Wake.Assigner)
	}
	s.parts = NewAssigner(s.table, NewFollower(s.table, nil, NewSettleRoom(s.room), s.rechecks))
}

// works lets the worker work for so long, then drains it, and ends it half a minute later if it has
// not ended by then.
func (s *scene) works(d time.Duration) error {
	s.Helper()
	if s.parts == nil {
		s.prepares()
	}
	s.began = task.Mono(s.ctx)
	work, kill := task.WithTimeout(s.ctx, d+30*time.Second)
	defer kill()
	drain, stop := task.WithTimeout(work, d)
	defer stop()
	return s.parts.Assign(engine.Lifecycle{Drain: drain, Work: work}, func() { s.told = append(s.told, "finished"); stop() })
}

// works, and nothing ends it.
func (s *scene) follows(d time.Duration) {
	s.Helper()
	if err := s.works(d); err != nil {
		s.Error(err)
	}
}

func (s *scene) took() time.Duration { return task.Mono(s.ctx) - s.began }

// Apply implements the target, which takes all unless it answers otherwise.
func (s *scene) Apply(ctx context.Context, r *sink.Request) (bool, error) {
	if s.answer != nil {
		if err := s.answer(ctx, r); err != nil {
			return false, err
		}
	}
	version := r.Refuse.AtLeast
	s.wrote = append(s.wrote, wrote{r.Row, number(version.Sequence()), version.Count() == transform.CountExact, task.Mono(ctx) - s.began, *r})
	return true, nil
}

// first and exact are the numbers of the changes that were written for the first time and exactly.
func (s *scene) first() []int { return s.numbers(false) }
func (s *scene) exact() []int { return s.numbers(true) }

func (s *scene) numbers(exact bool) (all []int) {
	for _, w := range s.wrote {
		if w.exact == exact {
			all = append(all, w.n)
		}
	}
	return all
}

// stream gives the changes of its shards in small pages.
type stream struct {
	*scene
	shards map[string]*history
	size   int           // of a page at most
	delay  time.Duration // of an answer
	reads  int
	// trimmed is how many changes of a shard are gone.
	trimmed int
	// fails, if not nil, is asked before each read and seek.
	fails func(shard string) error
}

type history struct {
	changes []cdc.Change
	closed  bool
}

func (s *stream) put(shard string, keys ...string) {
	h := s.shards[shard]
	for _, key := range keys {
		item := attribute.NewItem([]attribute.Attribute{{Name: "pk", Value: attribute.String(key)}, {Name: "v", Value: attribute.String(fmt.Sprint(len(h.changes)))}})
		h.changes = append(h.changes, cdc.Change{Event: cdc.Insert, Sequence: cdc.SequenceOf(uint64(len(h.changes) + 1)), Time: s.world.Now().Truncate(time.Second), Keys: enginetest.Keyed(key), New: item})
	}
}

func (s *stream) ListPage(context.Context, string, string) (cdc.ListingPage, error) {
	return cdc.ListingPage{}, errors.New("nobody lists here")
}

func (s *stream) Seek(_ context.Context, shard string, from cdc.Position) (cdc.Iterator, error) {
	if n := number(from.After); n > 0 && n < s.trimmed {
		return "", &cdc.Error{Op: "GetShardIterator", Reason: cdc.Trimmed, Err: errors.New("trimmed")}
	}
	return cdc.Iterator(fmt.Sprint(shard, "/", number(from.After))), s.failure(shard)
}

func (s *stream) failure(shard string) error {
	if s.fails == nil {
		return nil
	}
	return s.fails(shard)
}

func (s *stream) Read(ctx context.Context, at cdc.Iterator) (cdc.Page, error) {
	shard, text, _ := strings.Cut(string(at), "/")
	s.reads++
	from := 0
	_, _ = fmt.Sscan(text, &from)
	err := cmp.Or(task.Sleep(ctx, s.delay), s.failure(shard))
	if err != nil {
		return cdc.Page{}, err
	}
	h := s.shards[shard]
	to := min(len(h.changes), from+s.size)
	page := cdc.Page{Changes: slices.Clone(h.changes[from:to]), Next: cdc.Iterator(fmt.Sprint(shard, "/", to)), At: s.world.Now()}
	if h.closed && to == len(h.changes) {
		page.End, page.Next = true, ""
	}
	return page, nil
}
