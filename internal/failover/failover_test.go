package failover_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/checkpoint/checkpointtest"
	"github.com/dynamodb-bigtable/replicator/internal/failover"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/test/virtual"
)

// instance has clusters, and an app profile that leads to one of them.
type instance struct {
	leads    string
	clusters []string
	copied   []string // tables that were waited for
	during   func()   // happens while the first one is
	fails    error
}

func (i *instance) Cluster(context.Context) (string, error) { return i.leads, nil }

func (i *instance) Exists(_ context.Context, cluster string) (bool, error) {
	return slices.Contains(i.clusters, cluster), nil
}

func (i *instance) Replicate(_ context.Context, table string) error {
	if i.copied = append(i.copied, table); i.during != nil {
		i.during()
		i.during = nil
	}
	return i.fails
}

const still = time.Minute

// world is a migration of cluster one whose profile leads to cluster two.
type world struct {
	*testing.T
	ctx      context.Context
	store    *checkpointtest.Memory
	ledger   *checkpoint.Ledger
	instance *instance
	world    *virtual.World
}

func (w *world) open(worker string) *checkpoint.Ledger {
	l, err := checkpoint.Open(w.ctx, w.store, "default", checkpoint.Options{Worker: worker, ID: "ledger"})
	if err != nil {
		w.Fatal(err)
	}
	return l
}

func (w *world) run(p failover.Plan) (failover.Result, error) {
	p.State, p.Still = "state", still
	return failover.Run(w.ctx, w.ledger, w.instance, p)
}

func (w *world) table() checkpoint.TableState {
	t, _, err := w.ledger.Table(w.ctx, "Orders")
	if err != nil {
		w.Fatal(err)
	}
	return t
}

func (w *world) cluster() string {
	c, err := w.ledger.Cluster(w.ctx)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// in plays a test in virtual time.
func in(t *testing.T, play func(w *world)) {
	v := virtual.NewWorld(1, time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), false)
	err := v.Run(24*time.Hour, func(ctx context.Context) {
		w := &world{T: t, world: v, ctx: ctx, store: &checkpointtest.Memory{}, instance: &instance{leads: "two", clusters: []string{"one", "two"}}}
		w.ledger = w.open("operator")
		if err := w.ledger.CheckCluster(ctx, "one"); err != nil {
			t.Fatal(err)
		}
		_, err := w.ledger.UpdateTable(ctx, "Orders", func(s *checkpoint.TableState) error {
			s.Label, s.Generation, s.Adopted, s.Base, s.Listed = "L", 100, 100, 100, 100
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.ledger.UpdateTarget(ctx, "orders", func(t *checkpoint.Target) error { t.Fence = 1; return nil }); err != nil {
			t.Fatal(err)
		}
		play(w)
	})
	if err != nil {
		t.Error(err)
	}
}

// TestH46_AFailoverTakesLoads: whatever was written last may be missing in the other cluster, rows of
// loads too, so every table is loaded again in a generation above all others.
func TestH46_AFailoverTakesLoads(t *testing.T) {
	in(t, func(w *world) {
		r, err := w.run(failover.Plan{})
		if err != nil || r.Outcome != failover.Loads || !slices.Equal(r.Loads, []string{"Orders"}) || r.From != "one" || r.To != "two" {
			t.Fatalf("%+v, %v", r, err)
		}
		if !slices.Equal(w.instance.copied, []string{"state", "orders"}) {
			t.Errorf("waited for %v", w.instance.copied)
		}
		s := w.table()
		if !s.NeedsLoad || s.Kind != checkpoint.KindTargetLost || s.Generation <= 100 || s.Adopted != s.Generation {
			t.Errorf("the table: %+v", s)
		}
		if w.cluster() != "two" {
			t.Errorf("the ledger is of cluster %s", w.cluster())
		}
		if again, err := w.run(failover.Plan{}); err != nil || again.Outcome != failover.Nothing || w.table().Generation != s.Generation {
			t.Errorf("once more: %+v, %v", again, err)
		}
	})
}

// TestH46_APlannedMoveKeepsPositions: where everybody stopped in order before, and all is copied,
// nothing is loaded.
func TestH46_APlannedMoveKeepsPositions(t *testing.T) {
	in(t, func(w *world) {
		r, err := w.run(failover.Plan{StoppedFirst: true})
		if err != nil || r.Outcome != failover.Positions || len(r.Loads) > 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		if s := w.table(); s.NeedsLoad || s.Generation != 100 || w.cluster() != "two" || len(w.instance.copied) != 2 {
			t.Errorf("cluster %s, copied %v, the table: %+v", w.cluster(), w.instance.copied, s)
		}
	})
}

// TestH46_AFailoverIsRefused: nothing is changed while somebody writes, where the ledger does not
// bear an operator out, or while the profile moves on.
func TestH46_AFailoverIsRefused(t *testing.T) {
	keep := func(w *world) { // a worker dies with a lease
		l := w.open("worker1")
		s, err := l.KeeperLease(w.ctx, "Orders")
		if err == nil {
			_, err = l.TakeKeeperLease(w.ctx, s)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, says string
		plan       failover.Plan
		before     func(w *world)
	}{
		{"somebody writes", "is being written, by worker1", failover.Plan{}, func(w *world) {
			w.world.Go("worker", func(ctx context.Context) {
				if task.Sleep(ctx, still/2) == nil {
					keep(w)
				}
			})
		}},
		{"a lease is held", "leases are held by worker1", failover.Plan{StoppedFirst: true}, keep},
		{"the former cluster is gone", "cluster one is gone", failover.Plan{StoppedFirst: true}, func(w *world) { w.instance.clusters = []string{"two"} }},
		{"the profile moves on", "led elsewhere meanwhile", failover.Plan{}, func(w *world) { w.instance.during = func() { w.instance.leads = "three" } }},
		{"nobody knows where it leads", "cannot be told", failover.Plan{}, func(w *world) { w.instance.leads = "" }},
		{"a cutover is under way", "a cutover stands at", failover.Plan{}, func(w *world) {
			_, err := w.ledger.UpdateCutover(w.ctx, func(c *checkpoint.Cutover) error { c.Attempt, c.Step = 1, checkpoint.CutoverDrain; return nil })
			if err != nil {
				w.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(w *world) {
				c.before(w)
				_, err := w.run(c.plan)
				var refused *failover.RefusedError
				if !errors.As(err, &refused) || !strings.Contains(refused.Cause, c.says) || refused.Cure == "" {
					t.Fatalf("%v", err)
				}
				if s := w.table(); s.NeedsLoad || s.Generation != 100 || w.cluster() != "one" {
					t.Errorf("cluster %s, the table: %+v", w.cluster(), s)
				}
			})
		})
	}
}

// TestAFailoverGoesOn: what failed midway is not done twice.
func TestAFailoverGoesOn(t *testing.T) {
	in(t, func(w *world) {
		w.instance.fails = errors.New("no answer")
		if _, err := w.run(failover.Plan{}); !errors.Is(err, w.instance.fails) || w.cluster() != "one" {
			t.Fatalf("cluster %s: %v", w.cluster(), err)
		}
		w.instance.fails, w.instance.clusters = nil, []string{"two"} // it is deleted
		if r, err := w.run(failover.Plan{Rehearsal: true}); err != nil || r.Outcome != failover.Loads || w.cluster() != "one" || w.table().NeedsLoad {
			t.Fatalf("the rehearsal: %+v, %v", r, err)
		}
		w.store.OnSwap = func(_ context.Context, key string, execute func() bool) (bool, error) {
			if key == "default/pipeline" {
				return false, errors.New("unavailable")
			}
			return execute(), nil
		}
		if _, err := w.run(failover.Plan{}); err == nil || !w.table().NeedsLoad || w.cluster() != "one" {
			t.Fatalf("the ledger was moved: %v", err)
		}
		raised := w.table().Generation
		w.store.OnSwap = nil
		if r, err := w.run(failover.Plan{}); err != nil || !slices.Equal(r.Loads, []string{"Orders"}) || w.cluster() != "two" || w.table().Generation != raised {
			t.Errorf("generation %d after %d: %+v, %v", w.table().Generation, raised, r, err)
		}
	})
}
