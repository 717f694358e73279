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

// instance has clusters, and an app profile that routes to one of them.
type instance struct {
	leads    string
	clusters []string
	copied   []string // tables whose copy was awaited
	during   func()   // runs during the next copy
	fails    error
	deaf     func(ctx context.Context) error // runs before it answers
}

func (i *instance) Cluster(ctx context.Context) (string, error) { return i.leads, i.heard(ctx) }

func (i *instance) Exists(ctx context.Context, cluster string) (bool, error) {
	return slices.Contains(i.clusters, cluster), i.heard(ctx)
}

func (i *instance) heard(ctx context.Context) error {
	if i.deaf == nil {
		return nil
	}
	return i.deaf(ctx)
}

func (i *instance) Replicate(_ context.Context, table string) error {
	i.copied = append(i.copied, table)
	if during := i.during; during != nil {
		i.during = nil
		during()
	}
	return i.fails
}

const still = time.Minute

// world is a migration of cluster one whose app profile routes to cluster two.
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

// in runs a test in virtual time.
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

// TestH46_AFailoverTakesLoads: the last writes may be missing in the other cluster, rows of loads
// too. So every table is loaded again, in a generation above all others.
func TestH46_AFailoverTakesLoads(t *testing.T) {
	in(t, func(w *world) {
		began, above := task.Now(w.ctx), checkpoint.NextGeneration(100, task.Now(w.ctx).Add(still+time.Hour))
		var told []string
		r, err := w.run(failover.Plan{Tell: func(text string) { told = append(told, text) }})
		if err != nil || r.Outcome != failover.Loads || !slices.Equal(r.Loads, []string{"Orders"}) || r.From != "one" || r.To != "two" {
			t.Fatalf("%+v, %v", r, err)
		}
		if !slices.Equal(w.instance.copied, []string{"state", "orders"}) {
			t.Errorf("waited for %v", w.instance.copied)
		}
		if len(told) != 3 || task.Now(w.ctx).Sub(began) != still {
			t.Errorf("it says %q, and took %s", told, task.Now(w.ctx).Sub(began))
		}
		s := w.table()
		// A generation that only the former cluster saw is at most an hour ahead.
		if s.Generation < above {
			t.Errorf("generation %d, want %d", s.Generation, above)
		}
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

// TestH46_APlannedMoveKeepsPositions: if every worker stopped cleanly before, and everything is
// copied, nothing is loaded.
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

// TestH46_AFailoverIsRefused: nothing is changed while the ledger is written, where the ledger
// contradicts the operator, or if the app profile is rerouted meanwhile.
func TestH46_AFailoverIsRefused(t *testing.T) {
	keep := func(w *world) { // a worker dies with a lease
		l := w.open("worker1")
		s, err := l.CoordinatorLease(w.ctx, "Orders")
		if err == nil {
			_, err = l.TakeCoordinatorLease(w.ctx, s)
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
		{"another one failed over", "or another failover ran", failover.Plan{}, func(w *world) {
			w.instance.during = func() {
				if err := w.ledger.Move(w.ctx, "one", "three"); err != nil {
					w.Fatal(err)
				}
			}
		}},
		{"the profile leads back", "routed elsewhere meanwhile", failover.Plan{}, func(w *world) { w.instance.during = func() { w.instance.leads = "one" } }},
		{"somebody writes", "is still written by worker1", failover.Plan{}, func(w *world) {
			w.world.Go("worker", func(ctx context.Context) {
				if task.Sleep(ctx, still/2) == nil {
					keep(w)
				}
			})
		}},
		{"a lease is held", "leases are still held by worker1", failover.Plan{StoppedFirst: true}, keep},
		{"the former cluster is gone", "cluster one was deleted", failover.Plan{StoppedFirst: true}, func(w *world) { w.instance.clusters = []string{"two"} }},
		{"the profile moves on", "routed elsewhere meanwhile", failover.Plan{}, func(w *world) { w.instance.during = func() { w.instance.leads = "three" } }},
		{"nobody knows where it leads", "cannot see where", failover.Plan{}, func(w *world) { w.instance.leads = "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			in(t, func(w *world) {
				c.before(w)
				began := task.Now(w.ctx)
				r, err := w.run(c.plan)
				if r.From != "one" {
					t.Errorf("it is refused to leave cluster %q", r.From)
				}
				if waited := task.Now(w.ctx).Sub(began); c.plan.StoppedFirst && waited > 0 {
					t.Errorf("an operator waits %s for what is known at once", waited)
				}
				var refused *failover.RefusedError
				if !errors.As(err, &refused) || !strings.Contains(refused.Cause, c.says) || refused.Cure == "" {
					t.Fatalf("%v", err)
				}
				moved := map[bool]string{true: "three", false: "one"}[strings.HasPrefix(c.name, "another")]
				if s := w.table(); s.NeedsLoad || s.Generation != 100 || w.cluster() != moved {
					t.Errorf("cluster %s, the table: %+v", w.cluster(), s)
				}
			})
		})
	}
}

// TestAFailoverGoesOn: a repeated failover skips what the failed one has done.
func TestAFailoverGoesOn(t *testing.T) {
	in(t, func(w *world) {
		w.instance.fails = errors.New("no answer")
		if _, err := w.run(failover.Plan{}); !errors.Is(err, w.instance.fails) || w.cluster() != "one" {
			t.Fatalf("cluster %s: %v", w.cluster(), err)
		}
		w.instance.fails, w.instance.clusters, w.instance.copied = nil, []string{"two"}, nil // it is deleted
		if r, err := w.run(failover.Plan{Rehearsal: true}); err != nil || r.Outcome != failover.Loads || w.cluster() != "one" || w.table().NeedsLoad {
			t.Fatalf("the rehearsal: %+v, %v", r, err)
		}
		if w.instance.copied != nil {
			t.Errorf("it waits for a cluster that is gone: %v", w.instance.copied)
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

// TestH46_EachFailoverIsItsOwn: a table's generation is raised again unless this failover raised it
// and no worker has run since. Neither another gap nor an earlier failover between the same
// clusters counts.
func TestH46_EachFailoverIsItsOwn(t *testing.T) {
	in(t, func(w *world) {
		if _, err := w.ledger.UpdateTable(w.ctx, "Later", func(s *checkpoint.TableState) error { s.Label = "L"; return nil }); err != nil {
			t.Fatal(err)
		}
		if _, err := w.ledger.Raise(w.ctx, "Orders", 100, checkpoint.DeclaredGap{Kind: checkpoint.KindTargetLost, Reason: "another"}, func(*checkpoint.TableState) {}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.ledger.UpdateTable(w.ctx, "Former", func(s *checkpoint.TableState) error {
			// The record has no gap.
			s.Label, s.Generation, s.Adopted, s.Base, s.Listed, s.NeedsLoad = "L", 100, 100, 100, 100, true
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		gap := w.table().Generation
		// The other table had not begun.
		if r, err := w.run(failover.Plan{}); err != nil || !slices.Equal(r.Loads, []string{"Former", "Orders"}) {
			t.Fatalf("%+v, %v", r, err)
		}
		first := w.table()
		if first.Generation <= gap || !strings.Contains(first.Gaps[len(first.Gaps)-1].Reason, "from cluster one to cluster two") {
			t.Errorf("a gap of before passes for the failover's: %+v", first)
		}
		if _, err := w.ledger.UpdateTable(w.ctx, "Orders", func(s *checkpoint.TableState) error { s.NeedsLoad = false; return nil }); err != nil {
			t.Fatal(err)
		}
		for _, leads := range []string{"one", "two"} {
			w.instance.leads = leads
			if _, err := w.run(failover.Plan{StoppedFirst: leads == "one"}); err != nil {
				t.Fatal(err)
			}
		}
		if s := w.table(); !s.NeedsLoad || s.Generation <= first.Generation || w.cluster() != "two" {
			t.Errorf("the second failover found the first one's: %+v", s)
		}
	})
	in(t, func(w *world) {
		w.store.Clear()
		w.ledger = w.open("operator")
		if r, err := w.run(failover.Plan{}); err != nil || r.Outcome != failover.Nothing || r.From != "two" || r.To != "two" {
			t.Errorf("a ledger that knows no cluster: %+v, %v", r, err)
		}
		_, err := w.ledger.UpdateTable(w.ctx, "Orders", func(s *checkpoint.TableState) error {
			s.Label, s.Generation, s.Adopted, s.Base, s.Listed = "L", 100, 100, 100, 100
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.ledger.CheckCluster(w.ctx, "one"); err != nil {
			t.Fatal(err)
		}
		if r, err := w.run(failover.Plan{}); err != nil || !slices.Equal(r.Loads, []string{"Orders"}) || !w.table().NeedsLoad {
			t.Errorf("before a target was written: %+v, %v", r, err)
		}
	})
}

// TestAFailoverHandsOnFailures: any failed request ends it before the ledger moves, and a request
// without an answer is given up after half a minute.
func TestAFailoverHandsOnFailures(t *testing.T) {
	lost := errors.New("lost")
	for _, first := range []bool{false, true} {
		for at, reached := 1, true; reached; at++ {
			in(t, func(w *world) {
				n := 0
				fail := func(ctx context.Context) error {
					if n++; n == at {
						return lost
					}
					return nil
				}
				w.instance.deaf = fail
				w.store.OnRead = func(ctx context.Context, _ string) error { return fail(ctx) }
				_, err := w.run(failover.Plan{StoppedFirst: first})
				w.store.OnRead = nil
				if err != nil && strings.Contains(err.Error(), "nil") {
					t.Errorf("failure %d: %v", at, err)
				}
				if reached = n >= at; reached && (!errors.Is(err, lost) || w.cluster() != "one") || !reached && (err != nil || w.cluster() != "two" || at < 8) {
					t.Errorf("failure %d of %d, stopped first %t: %v, cluster %s", at, n, first, err, w.cluster())
				}
			})
		}
	}
	in(t, func(w *world) {
		w.instance.deaf = func(ctx context.Context) error {
			_ = task.Sleep(ctx, time.Hour)
			return errors.New("rpc error") // which does not show how long that took
		}
		began := task.Now(w.ctx)
		if _, err := w.run(failover.Plan{}); err == nil || !strings.Contains(err.Error(), "no answer within 30s") || task.Now(w.ctx).Sub(began) != 30*time.Second {
			t.Errorf("%v after %s", err, task.Now(w.ctx).Sub(began))
		}
	})
}

// TestH46_ALeaseThatIsCopiedLate: the last copy may show that a worker died with a lease, so
// earlier observations prove nothing.
func TestH46_ALeaseThatIsCopiedLate(t *testing.T) {
	in(t, func(w *world) {
		w.instance.during = func() {
			l := w.open("worker1")
			seen, err := l.CoordinatorLease(w.ctx, "Orders")
			if err == nil {
				_, err = l.TakeCoordinatorLease(w.ctx, seen)
			}
			if err != nil {
				w.Fatal(err)
			}
		}
		var refused *failover.RefusedError
		if _, err := w.run(failover.Plan{StoppedFirst: true}); !errors.As(err, &refused) || !strings.Contains(refused.Cause, "worker1") || w.cluster() != "one" {
			t.Errorf("cluster %s: %v", w.cluster(), err)
		}
	})
}
