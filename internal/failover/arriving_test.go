package failover_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/failover"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// arrives lets a worker of the former cluster take the coordinator lease there. The failover finds
// the lease once the ledger was replicated.
func (w *world) arrives(then func(k *checkpoint.Coordinator)) {
	w.instance.during = func() {
		l := w.open("worker")
		lease, err := l.CoordinatorLease(w.ctx, "Orders")
		if err != nil {
			w.Fatal(err)
		}
		k, err := l.TakeCoordinatorLease(w.ctx, lease)
		if err != nil {
			w.Fatal(err)
		}
		then(k)
	}
}

// refusedFor fails unless the failover was refused for a reason and did not move the ledger.
func (w *world) refusedFor(err error, cause string) {
	w.Helper()
	var refused *failover.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Cause, cause) || refused.Cure == "" || w.cluster() != "one" || w.table().NeedsLoad {
		w.Errorf("wanted a refusal because %q, cluster %s: %v", cause, w.cluster(), err)
	}
}

// H46: a worker that still renews its lease while the ledger is replicated may write. The failover
// is refused, in a rehearsal too.
func TestH46_AWorkerThatArrivesWithTheCopyIsSeen(t *testing.T) {
	for _, rehearsal := range []bool{false, true} {
		in(t, func(w *world) {
			w.arrives(func(k *checkpoint.Coordinator) {
				w.world.Go("renew the lease", func(context.Context) { _ = k.Keep() })
			})
			_, err := w.run(failover.Plan{Rehearsal: rehearsal})
			w.refusedFor(err, "still written by worker")
		})
	}
}

// A worker of the former cluster whose writes arrive only with a copy is found by a second copy.
func TestH46_AWorkerThatArrivesWithEachCopyIsSeen(t *testing.T) {
	in(t, func(w *world) {
		w.arrives(func(*checkpoint.Coordinator) {})
		again := w.instance.during
		w.instance.during = func() {
			again()
			w.instance.during = func() {
				if _, err := w.open("worker").UpdateTable(w.ctx, "Orders", func(s *checkpoint.TableState) error { s.Listed++; return nil }); err != nil {
					w.Fatal(err)
				}
			}
		}
		_, err := w.run(failover.Plan{})
		w.refusedFor(err, "still written by worker")
		if !slices.Equal(w.instance.copied, []string{"state", "state"}) {
			t.Errorf("copied %v", w.instance.copied)
		}
	})
}

// The last writes of a worker that was stopped or died delay a failover by one more wait.
func TestH46_AWorkerThatArrivesLastDelaysTheFailover(t *testing.T) {
	in(t, func(w *world) {
		w.arrives(func(*checkpoint.Coordinator) {})
		began := task.Now(w.ctx)
		r, err := w.run(failover.Plan{})
		if err != nil || r.Outcome != failover.Loads || w.cluster() != "two" || task.Now(w.ctx).Sub(began) != 2*still {
			t.Errorf("cluster %s after %s: %+v, %v", w.cluster(), task.Now(w.ctx).Sub(began), r, err)
		}
		if !slices.Equal(w.instance.copied, []string{"state", "state", "orders"}) {
			t.Errorf("copied %v", w.instance.copied)
		}
	})
}

// H46: a worker that wrote after all workers were reported stopped may have moved positions whose
// rows have not arrived. Such positions are not kept. Once everything has arrived, they are.
func TestH46_AWorkerThatStoppedLateCostsThePositions(t *testing.T) {
	in(t, func(w *world) {
		w.arrives(func(k *checkpoint.Coordinator) {
			if err := k.Release(w.ctx); err != nil {
				w.Fatal(err)
			}
		})
		_, err := w.run(failover.Plan{StoppedFirst: true})
		w.refusedFor(err, "arrived from cluster one only now")
		if r, err := w.run(failover.Plan{StoppedFirst: true}); err != nil || r.Outcome != failover.Positions || w.cluster() != "two" {
			t.Errorf("cluster %s: %+v, %v", w.cluster(), r, err)
		}
	})
}
