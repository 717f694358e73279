package sim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/fence"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// fences holds the state of the fence's checkers (H35) for all target tables.
type fences struct {
	named     string                       // the family that the current write names first
	published map[string]map[string]uint32 // by family: the generation that each source table had adopted by then
	open      map[string]bool              // tables with a published number
	withheld  map[string]bool              // tables that were ever without one
	gone      map[string]bool              // table/family whose drop has taken effect
}

func newFences(target *model.Bigtable) *fences {
	f := &fences{published: map[string]map[string]uint32{}, open: map[string]bool{}, withheld: map[string]bool{}, gone: map[string]bool{}}
	target.Fades = 15 * time.Second
	target.Stamped = func(_, _, family string) { f.named = family }
	target.Dropped = func(table, family string) { f.gone[table+"/"+family] = true }
	return f
}

// noted observes each write of a target table's record.
func (f *fences) noted(m *Migration, after *model.Row) {
	target, ok := decoded[checkpoint.Target](after)
	if !ok {
		return
	}
	f.withheld[target.Table] = f.withheld[target.Table] || target.Withheld != ""
	f.open[target.Table] = target.Fence > 0
	pipeline, ok := decoded[pipelineRecord](m.Target.Row(model.StateTable, "default/pipeline"))
	if !ok || target.Fence == 0 {
		return
	}
	family := sink.FenceFamily(pipeline.Ledger, target.Fence)
	if f.published[target.Table+"/"+family] != nil {
		return
	}
	adopted := map[string]uint32{}
	const tables = "default/table/"
	for _, key := range m.Target.RowsUnder(model.StateTable, tables) {
		if s, ok := decoded[checkpoint.TableState](m.Target.Row(model.StateTable, key)); ok {
			name := strings.TrimPrefix(key, tables)
			adopted[name] = s.Adopted
			if m.FromTopic { // appliers write changes of earlier generations until the load begins
				adopted[name] = min(s.Adopted, s.Load.Begun())
			}
		}
	}
	f.published[target.Table+"/"+family] = adopted
}

// written checks each write. Once there is a number, every write has a stamp. No write has a number
// whose drop has taken effect, or a number that was published after its writer lost the right to
// write.
func (f *fences) written(m *Migration, table, key string, before, after *model.Row) {
	if strings.HasPrefix(key, transform.WitnessPrefix) {
		return
	}
	if transform.Version(heldIn(after, sink.VersionColumn)).ByApplication() {
		return // the application's write, which has no generation
	}
	family := table + "/" + f.named
	switch {
	case !sink.IsFence(f.named):
		if f.open[table] && !f.withheld[table] {
			m.violate("H35: row %q is written without a stamp", key)
		}
		return
	case f.gone[family]:
		m.violate("H35: row %q is written under %s, which was dropped", key, f.named)
	}
	after.Columns(func(in, qualifier string, _ int64, value string) {
		if in != sink.LiveFamily && in != sink.GoneFamily || !strings.HasPrefix(qualifier, sink.VersionColumn) {
			return
		}
		if was, _ := before.Value(in, qualifier); was == value {
			return
		}
		v, err := transform.ParseVersion(value)
		if err == nil && v.Count() <= transform.CountExact && v.Generation() < f.published[family][m.Source.Name] {
			m.violate("H35: row %q is written at %s under %s, which was published in generation %d", key, v, f.named, f.published[family][m.Source.Name])
		}
	})
}

// sweeps checks that a sweep begins only when all numbers of its ledger that were published before
// its generation are dropped.
func (f *fences) sweeps(m *Migration, is *checkpoint.TableState) {
	pipeline := recordOf[pipelineRecord](m.Target.Row(model.StateTable, "default/pipeline"))
	for _, table := range m.Mapping.Tables() {
		for _, family := range m.Target.Families(table) {
			_, own, _ := sink.ParseFence(pipeline.Ledger, family)
			adopted, published := f.published[table+"/"+family]
			if own && published && !f.withheld[table] && adopted[m.Source.Name] < is.Generation {
				m.violate("H35: the sweep of generation %d begins while %s stands, which was published in %d", is.Generation, family, adopted[m.Source.Name])
			}
		}
		if f.withheld[table] {
			m.World.Inject("sweep without a fence")
		}
	}
}

// raiseFence raises the fence as a cutover does: a new number for each target, then the drop of
// earlier ones.
func (s *simulation) raiseFence(event) {
	name := fmt.Sprintf("driver%d", s.World.Steps())
	driver := s.World.NewProcess(name)
	driver.Go("raise the fence", func() {
		if err := s.drive(driver.Context(), name); err != nil {
			s.World.Tracef("the fence is not raised: %v", err)
		}
	})
}

func (m *Migration) drive(ctx context.Context, name string) error {
	ledger, err := checkpoint.Open(ctx, m.Store(), "default", checkpoint.Options{Worker: name, Lease: m.Lease, ReadOnly: true})
	if err != nil {
		return err
	}
	f := fence.Fence{Ledger: ledger, Families: model.Target{Bigtable: m.Target}}
	for _, table := range m.Mapping.Tables() {
		t, err := f.Raise(ctx, table)
		if err != nil {
			return err
		}
		_ = task.Sleep(ctx, m.World.UpTo(time.Minute))
		if err := ledger.Check(ctx); err != nil {
			return err
		}
		if withheld, err := f.Drop(ctx, table, t.Fence); err != nil || withheld != "" {
			return err
		}
		m.World.Inject("fence raised and dropped")
	}
	return nil
}

// protect removes the permission to change families for some time.
func (s *simulation) protect(e event) {
	s.Target.Protected = true
	s.World.After(s.span(e, 10*time.Hour), func() { s.Target.Protected = false })
}
