package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/attribute"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
	"github.com/dynamodb-bigtable/replicator/transform"
)

// families are the families of several tables, and the changes of their fences in order.
type families struct {
	sink.Families
	names map[string][]string
	did   []string
}

func (f *families) ListFamilies(_ context.Context, table string) ([]string, error) {
	return slices.Clone(f.names[table]), nil
}

func (f *families) CreateFamily(_ context.Context, table, family string) error {
	f.did = append(f.did, "raise "+table)
	f.names[table] = append(f.names[table], family)
	return nil
}

func (f *families) DropFamily(_ context.Context, table, family string) error {
	f.did = append(f.did, "drop "+table)
	f.names[table] = slices.DeleteFunc(f.names[table], func(name string) bool { return name == family })
	return nil
}

// mappedBefore adds a former mapping to the record, whose rows are in table former.
func (s *loadScene) mappedBefore(ctx context.Context) *families {
	s.Helper()
	m, err := transform.NewMapping("Orders", "former", "d", []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}})
	s.check(err)
	f := &families{Families: s.target, names: map[string][]string{"orders": slices.Clone(s.target.Names), "former": {"d", sink.FenceFamily(s.Ledger.ID(), 1)}}}
	s.Families, s.Restore = f, func(string) (*transform.Mapping, error) { return m, nil }
	s.change(ctx, func(state *checkpoint.TableState) {
		state.Targets, state.Former = []string{"orders"}, []checkpoint.Former{{Hash: "h", Text: "t", Tables: []string{"former"}, Generation: 1}}
	})
	s.target.Create("former", "d")
	s.Reset()
	return f
}

// The fence of a table that only a former mapping wrote rises with the load, and its earlier numbers
// are dropped before the sweep. Otherwise a late write of that mapping could follow the sweep.
func TestTheFenceOfAFormerTable(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		f := s.mappedBefore(ctx)
		s.change(ctx, func(state *checkpoint.TableState) { state.Load.AskedAt = task.Now(ctx) })
		s.check(s.step(ctx))
		if did := strings.Join(f.did, ", "); did != "raise orders, raise former" || s.state(ctx).Stage() != checkpoint.StageCopying {
			t.Errorf("with the load: %s, %+v", did, s.state(ctx).Load)
		}
		f.did = nil
		s.finish(ctx, checkpoint.PartProgress{})
		s.check(s.step(ctx))
		s.check(s.step(ctx))
		if did := strings.Join(f.did, ", "); did != "drop orders, drop former" || s.state(ctx).Load.Sweep.Parts < 2 {
			t.Errorf("before the sweep: %s, %+v", did, s.state(ctx).Load.Sweep)
		}
	})
}

// writes makes another migration write a target table.
func (s *loadScene) writes(ctx context.Context, store checkpoint.Store) {
	s.Helper()
	other, err := checkpoint.Open(ctx, &checkpointtest.Memory{}, "two", checkpoint.Options{Worker: "v", ID: "other"})
	s.check(err)
	_, _, err = other.Beat(ctx, "Returns", checkpoint.Place{Store: store, Key: transform.WitnessKeyOf("Returns")})
	s.check(err)
}

// Another migration delays a first load and every sweep, also one of a table that only a former mapping
// wrote. It does not delay the copy of a later load, which removes nothing. It is named before every
// other reason, because an operator must end it.
func TestWhichLoadsAnotherMigrationDelays(t *testing.T) {
	busy := 0.5
	asked := func(ctx context.Context, s *loadScene) {
		s.change(ctx, func(state *checkpoint.TableState) { state.Load.AskedAt = task.Now(ctx) })
	}
	copied := func(ctx context.Context, s *loadScene) {
		s.sealed(ctx, 1)
		s.change(ctx, func(state *checkpoint.TableState) { state.Load.DoneAt = task.Now(ctx) })
	}
	for name, c := range map[string]struct {
		prepare func(ctx context.Context, s *loadScene)
		table   string
		delayed bool
	}{
		"a first load": {asked, "orders", true},
		"a later load": {func(ctx context.Context, s *loadScene) {
			asked(ctx, s)
			s.change(ctx, func(state *checkpoint.TableState) { state.Base, state.NeedsLoad = 1, true })
		}, "orders", false},
		"a sweep":                    {copied, "orders", true},
		"the sweep of another table": {copied, "former", true},
		"the copy":                   {func(ctx context.Context, s *loadScene) { s.sealed(ctx, 1) }, "orders", false},
		"the target is busy, too": {func(ctx context.Context, s *loadScene) {
			s.Limits.TargetCPU = &busy
			s.Busy = func(context.Context, float64) string { return "the target is busy" }
			s.Reset()
			copied(ctx, s)
		}, "orders", true},
	} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.mappedBefore(ctx)
			own, others := s.Witness, &checkpointtest.Memory{}
			s.Witness = func(table string) checkpoint.Store {
				if table == "former" {
					return others
				}
				return own(table)
			}
			s.Reset()
			s.writes(ctx, s.Witness(c.table))
			c.prepare(ctx, s)
			s.check(s.step(ctx))
			if l := s.state(ctx).Load; l.PausedForStranger() != c.delayed || !c.delayed && l.Paused != "" {
				t.Errorf("%s: paused for %q", name, l.Paused)
			}
		})
	}
}

// A witness that cannot be read is no proof that no other migration writes the target: nothing begins.
func TestAWitnessThatCannotBeRead(t *testing.T) {
	loads(t, func(ctx context.Context, s *loadScene) {
		s.change(ctx, func(state *checkpoint.TableState) { state.Load.AskedAt = task.Now(ctx) })
		s.Witness("orders").(*checkpointtest.Memory).OnRead = func(context.Context, string) error { return checkpoint.ErrLedgerExchanged }
		if err := s.step(ctx); !errors.Is(err, checkpoint.ErrLedgerExchanged) || s.state(ctx).Stage() != checkpoint.StageAsked {
			t.Errorf("%v, %+v", err, s.state(ctx).Load)
		}
	})
}

// The witness has the new fence number before a sweep waits, because applications read it there.
func TestTheWitnessBeforeASweep(t *testing.T) {
	for _, number := range []string{"", "rev"} {
		loads(t, func(ctx context.Context, s *loadScene) {
			m, err := transform.New(transform.Spec{Source: "Orders", Table: "orders", VersionAttribute: number, Families: []transform.Family{{Name: "d"}},
				PrimaryKey: []transform.KeyAttribute{{Name: "pk", Type: attribute.KindS}}})
			s.check(err)
			s.Mapping = m
			s.Reset()
			began, beats := task.Mono(ctx), 0
			s.Witness("orders").(*checkpointtest.Memory).OnSwap = func(_ context.Context, _ string, execute func() bool) (bool, error) {
				if beats++; task.Mono(ctx) != began {
					t.Error("it is written after the wait")
				}
				return execute(), nil
			}
			s.check(s.conductor().quiet(engine.Until(ctx), checkpoint.TableState{}, nil))
			if (beats > 0) != (number != "") {
				t.Errorf("%q: written %d times", number, beats)
			}
		})
	}
}

// A part of a sweep of a table that only a former mapping wrote proves the right to write that
// table, when it is taken and whenever the fence rises meanwhile. It removes rows by the former
// mapping.
func TestAPartOfASweepOfAFormerTable(t *testing.T) {
	for _, raised := range []bool{false, true} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.mappedBefore(ctx)
			raise := func() uint64 {
				target, err := s.Table().Fencing.Fence.Raise(ctx, "former")
				s.check(err)
				s.target.Memory.Raise("former", sink.FenceFamily(s.Ledger.ID(), target.Fence))
				return target.Fence
			}
			number := raise()
			former, err := s.Restore("")
			s.check(err)
			gone := transform.Load(former, []attribute.Item{enginetest.Keyed("gone")}, 1, task.Now(ctx))
			s.check(sink.NewWriter(sink.Options{Table: s.target, Parking: sink.NewParking(nil, "p")}).Write(ctx, sink.Unfenced(), &gone))
			s.sealed(ctx, 1)
			s.change(ctx, func(state *checkpoint.TableState) {
				state.Load.DoneAt = task.Now(ctx)
				state.Load.Sweep = checkpoint.Sweep{Pass: 1, Parts: 2, Approved: true, Ranges: []checkpoint.SweepRange{{Table: "orders"}, {Table: "former"}}}
			})
			writes := func() string {
				all, err := s.Ledger.Writers(ctx)
				s.check(err)
				if len(all) != 1 {
					s.Fatalf("%+v", all)
				}
				return fmt.Sprint(all[0].Targets["former"].Number, len(all[0].Targets))
			}
			state := s.state(ctx)
			part := state.LoadPart()
			part.Index = 1
			lease, work, err := phase{s.loader(), part.Phase}.Take(ctx, state, part)
			s.check(err)
			if got := writes(); got != fmt.Sprint(number, 2) {
				t.Errorf("taken with the right to write %s, want %d of 2 tables", got, number)
			}
			if raised {
				s.target.Memory.Drop("former", sink.FenceFamily(s.Ledger.ID(), number))
				number = raise()
			}
			drain, cancel := task.WithTimeout(ctx, 10*time.Minute)
			defer cancel()
			s.check(work(engine.Lifecycle{Drain: drain, Work: drain}))
			rows := 0
			s.check(s.target.ReadRows(ctx, "former", sink.Range{}, func(r sink.Row) error { rows += len(r.Cells); return nil }))
			if part := lease.Part(); rows != 0 || part.Removed != 1 || part.State != checkpoint.PartDone || writes() != fmt.Sprint(number, 2) {
				t.Errorf("raised %v: %d cells are left, %+v, the right to write %s", raised, rows, part, writes())
			}
		})
	}
}

// The wait before a sweep is the longest that any of its tables needs, whatever their order.
func TestASweepWaitsForTheSlowestTable(t *testing.T) {
	for name, c := range map[string]struct {
		withheld string
		delay    time.Duration
		late     time.Duration
	}{
		"both are dropped":       {"", time.Second, time.Second},
		"the first is withheld":  {"orders", time.Second, sink.DefaultTimeout},
		"the second is withheld": {"former", time.Second, sink.DefaultTimeout},
	} {
		loads(t, func(ctx context.Context, s *loadScene) {
			s.Families = slowSchema{s.target, c.delay}
			s.Reset()
			for _, table := range []string{"orders", "former"} {
				_, err := s.Ledger.UpdateTarget(ctx, table, func(target *checkpoint.Target) error {
					if table == c.withheld {
						target.Withheld = "protected"
					}
					return nil
				})
				s.check(err)
			}
			began := task.Mono(ctx)
			s.check(s.conductor().quiet(engine.Until(ctx), checkpoint.TableState{}, []string{"former"}))
			if waited := task.Mono(ctx) - began; waited != s.Ledger.Lease()+c.late {
				t.Errorf("%s: %s, want %s", name, waited, s.Ledger.Lease()+c.late)
			}
		})
	}
}
