package load

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/backfill"
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/sink/sinktest"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// shop is the table Orders with items i0, i1, …, one per page. Item n is in segment n modulo the
// number of segments.
type shop struct {
	enginetest.Streaming
	id       string
	items    int
	bytes    int64
	capacity int64
	behind   time.Duration                   // by which the worker's clock is ahead
	reads    int                             // of pages
	scan     func(ctx context.Context) error // makes a page fail
	describe func() error                    // makes a description fail
	timeless bool                            // answers have no time
}

func (s *shop) Describe(ctx context.Context, _ string) (backfill.Description, error) {
	if s.describe != nil {
		if err := s.describe(); err != nil {
			return backfill.Description{}, err
		}
	}
	d := backfill.Description{Name: "Orders", ARN: shopARN, ID: s.id, Items: int64(s.items), Bytes: s.bytes, At: task.Now(ctx).Add(-s.behind), ReadCapacity: s.capacity}
	if s.timeless {
		d.At = time.Time{}
	}
	return d, nil
}

func (s *shop) Scan(ctx context.Context, _ string, segment, total int, after attribute.Item, _ int) (backfill.ScanPage, error) {
	s.reads++
	if err := task.Sleep(ctx, 400*time.Millisecond); err != nil {
		return backfill.ScanPage{}, err
	}
	if s.scan != nil {
		if err := s.scan(ctx); err != nil {
			return backfill.ScanPage{}, err
		}
	}
	n := segment
	if pk, ok := after.Get("pk"); ok {
		_, _ = fmt.Sscanf(pk.Text(), "i%d", &n)
		n += total
	}
	page := backfill.ScanPage{At: task.Now(ctx), Consumed: 0.5}
	if n < s.items {
		page.Items = []attribute.Item{enginetest.Keyed(fmt.Sprint("i", n))}
		page.Next = page.Items[0]
	}
	return page, nil
}

func (s *shop) Get(_ context.Context, _ string, key attribute.Item) (attribute.Item, bool, error) {
	n := s.items
	pk, _ := key.Get("pk")
	_, _ = fmt.Sscanf(pk.Text(), "i%d", &n)
	return key, n < s.items, nil
}

// loadScene is a worker with the table of a shop, in generation 2, whose stream is read to its end.
type loadScene struct {
	*testing.T
	*enginetest.Rig
	store  *checkpointtest.Memory
	shop   *shop
	target *enginetest.Schema
	told   []string
	paces  []checkpoint.Pace
}

func (s *loadScene) SavePace(_ context.Context, p checkpoint.Pace) error {
	s.paces = append(s.paces, p)
	return nil
}

// loads runs a script with a table that needs its load.
func loads(t *testing.T, script func(ctx context.Context, s *loadScene)) {
	t.Helper()
	err := virtual.NewWorld(1, enginetest.ListingsBegin, false).Run(48*time.Hour, func(ctx context.Context) {
		s := &loadScene{T: t, store: &checkpointtest.Memory{}, shop: &shop{id: "first", items: 12}, target: &enginetest.Schema{Memory: &sinktest.Memory{}, Names: []string{"d", "_cdc", "_cdc_gone"}}}
		ledger, err := checkpoint.Open(ctx, s.store, "load", checkpoint.Options{Worker: "w", ID: "l"})
		if err != nil {
			t.Error(err)
			return
		}
		ledger.Heard(ctx, task.Now(ctx))
		s.target.Create("orders", "d")
		s.Rig = enginetest.NewRig(ledger, engine.Spec{Mapping: enginetest.OrdersMapping(t), Copy: true, Segments: 2})
		witness := &checkpointtest.Memory{}
		s.Database, s.Target, s.Families = s.shop, s.target, s.target
		s.Witness = func(string) checkpoint.Store { return witness }
		s.Writer = sink.NewWriter(sink.Options{Table: s.target, Parking: sink.NewParking(nil, "p"), Floor: s.Floors.Floor})
		s.Timing = engine.Timing{}.OrDefault(ledger.Lease())
		s.Events.CopyStarted = func(_ string, _, done int64) { s.told = append(s.told, fmt.Sprint("started at ", done)) }
		s.Events.CopyDone = func(_ string, items int64) { s.told = append(s.told, fmt.Sprint("done ", items)) }
		s.Events.CopyLeft = func(string) { s.told = append(s.told, "left") }
		s.change(ctx, func(state *checkpoint.TableState) {
			state.Generation, state.Adopted, state.Listed, state.Label = 2, 2, 2, "label"
		})
		s.root(ctx, task.Now(ctx))
		s.check(s.Table().Fencing.OpenFence(ctx))
		s.Reset()
		script(ctx, s)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *loadScene) check(err error) {
	s.Helper()
	if err != nil {
		s.Error(err)
	}
}

func (s *loadScene) change(ctx context.Context, f func(*checkpoint.TableState)) {
	s.Helper()
	_, err := s.Ledger.UpdateTable(ctx, "Orders", func(state *checkpoint.TableState) error { f(state); return nil })
	s.check(err)
}

func (s *loadScene) state(ctx context.Context) checkpoint.TableState {
	s.Helper()
	state, _, err := s.Ledger.Table(ctx, "Orders")
	s.check(err)
	return state
}

// root creates a shard that was first read at a time, and last applied now.
func (s *loadScene) root(ctx context.Context, read time.Time) {
	s.Helper()
	s.check(s.Ledger.CreateShard(ctx, checkpoint.Shard{Source: "Orders", Label: "label", ID: "root", State: checkpoint.Reading, Hop: cdc.RootHop, Generation: 2,
		FirstRead: read, EventTime: task.Now(ctx), AppliedTo: task.Now(ctx)}))
}

// loadParts are the two loops of a table's loads.
type loadParts struct {
	loader    *Loader
	conductor *Conductor
}

func loadsOf(r *enginetest.Rig) *loadParts {
	return enginetest.PartOf(r, func(s *engine.Table) *loadParts {
		loader, conductor := New(s)
		return &loadParts{loader, conductor}
	})
}

func (s *loadScene) conductor() *Conductor { return loadsOf(s.Rig).conductor }

func (s *loadScene) loader() *Loader { return loadsOf(s.Rig).loader }

// step runs the conductor for one step.
func (s *loadScene) step(ctx context.Context) error { return s.conductor().step(engine.Until(ctx), s) }

// sealed begins a copy with a number of parts.
func (s *loadScene) sealed(ctx context.Context, parts int) checkpoint.TableState {
	s.Helper()
	s.change(ctx, func(state *checkpoint.TableState) {
		state.Load = checkpoint.Load{Generation: 2, Number: 1, Parts: parts, TableID: "first", AskedAt: task.Now(ctx), StartedAt: task.Now(ctx)}
	})
	return s.state(ctx)
}

// part takes a part of the running phase, like another worker.
func (s *loadScene) part(ctx context.Context, index int) *checkpoint.PartLease {
	s.Helper()
	state := s.state(ctx)
	phase, total := state.RunningPhase()
	lease, err := s.Ledger.TakePart(ctx, checkpoint.Part{Source: "Orders", Generation: 2, Number: state.Load.Number, Phase: phase, Index: index, Total: total})
	s.check(err)
	return lease
}

// finish completes the parts of the running phase.
func (s *loadScene) finish(ctx context.Context, to checkpoint.PartProgress) {
	s.Helper()
	_, total := s.state(ctx).RunningPhase()
	for index := range total {
		s.check(s.part(ctx, index).Finish(ctx, to))
	}
}

func (s *loadScene) parts(ctx context.Context) []checkpoint.Part {
	s.Helper()
	parts, err := s.Ledger.Parts(ctx, s.state(ctx), checkpoint.PhaseCopy)
	s.check(err)
	return parts
}

// work runs the loader and, on request, the conductor for a duration, and returns the error that
// ends them early.
func (s *loadScene) work(ctx context.Context, d time.Duration, conduct bool) error {
	drain, cancel := task.WithTimeout(ctx, d)
	defer cancel()
	g := task.NewGroup(ctx, 0)
	g.Go("parts", func(work context.Context) error { return s.loader().Run(engine.Lifecycle{Drain: drain, Work: work}) })
	if conduct {
		g.Go("conduct", func(work context.Context) error {
			return s.conductor().Run(engine.Lifecycle{Drain: drain, Work: work}, s)
		})
	}
	return g.Wait()
}

// live returns the keys of the target's rows that hold an item.
func (s *loadScene) live(ctx context.Context) (keys []string) {
	s.Helper()
	s.check(s.target.ReadRows(ctx, "orders", sink.Range{}, func(r sink.Row) error {
		if len(r.Cells) > 0 {
			keys = append(keys, r.Key)
		}
		return nil
	}))
	return keys
}

// inherited writes a row of a removed item, as an earlier generation did.
func (s *loadScene) inherited(ctx context.Context, pk string) {
	s.Helper()
	batch := transform.Load(s.Mapping, []attribute.Item{enginetest.Keyed(pk)}, 1, task.Now(ctx))
	s.check(sink.NewWriter(sink.Options{Table: s.target, Parking: sink.NewParking(nil, "p")}).Write(ctx, sink.Unfenced(), &batch))
}
