package failover_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/failover"
	"github.com/dynamodb-bigtable/replicator/test/known"
)

// arrives lets a worker of the former cluster take the lease of the table's coordinator there,
// which is seen when the ledger was copied.
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

// A worker that still renews its lease when the ledger was copied may write: the failover is
// refused.
func TestAWorkerThatArrivesWithTheCopyIsSeen(t *testing.T) {
	in(t, func(w *world) {
		w.arrives(func(k *checkpoint.Coordinator) {
			w.world.Go("renew the lease", func(context.Context) { _ = k.Keep() })
		})
		r, err := w.run(failover.Plan{})
		known.Defect(t, 46, "not refused: outcome loads", known.Expect(err != nil, "not refused: outcome %s", r.Outcome))
	})
}

// A worker that wrote after all workers were said to have stopped, and stopped then, may have moved
// positions whose rows have not arrived: positions are not kept.
func TestAWorkerThatStoppedLateCostsThePositions(t *testing.T) {
	in(t, func(w *world) {
		w.arrives(func(k *checkpoint.Coordinator) {
			if err := k.Release(w.ctx); err != nil {
				w.Fatal(err)
			}
		})
		r, err := w.run(failover.Plan{StoppedFirst: true})
		known.Defect(t, 46, "not refused: outcome positions",
			known.Expect(err != nil || r.Outcome == failover.Loads, "not refused: outcome %s", r.Outcome))
	})
}

// A cutover is ended in the cluster that is left: the former one may be deleted. One that is done
// hinders nothing.
func TestACutoverNeedsNoDeletedCluster(t *testing.T) {
	for _, step := range []checkpoint.CutoverStep{checkpoint.CutoverDrain, checkpoint.CutoverSwitching, checkpoint.CutoverWatching, checkpoint.CutoverDone} {
		in(t, func(w *world) {
			w.instance.clusters = []string{"two"}
			_, err := w.ledger.UpdateCutover(w.ctx, func(c *checkpoint.Cutover) error { c.Attempt, c.Step = 1, step; return nil })
			if err != nil {
				t.Fatal(err)
			}
			_, err = w.run(failover.Plan{})
			var refused *failover.RefusedError
			back := errors.As(err, &refused) && strings.Contains(refused.Cure, "cluster one")
			const defect = "refused: lead the app profile back to a cluster that is deleted"
			known.Defect(t, 46, defect, known.Expect(!back && (err == nil || step != checkpoint.CutoverDone), defect))
		})
	}
}
