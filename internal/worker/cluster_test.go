package worker

import (
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
)

// If the app profile is rerouted while a worker runs, the next request for the cluster shows that,
// both in the pipeline and in the probe.
func TestH46_TheClusterIsAskedForAnew(t *testing.T) {
	w, routed := connected(t)
	ledger := begin(t, w)
	ask := w.pipeline(ledger, nil, silentObserver()).Cluster
	for _, cluster := range []string{"c1", "c2"} {
		routed.Store(cluster)
		if got, err := ask(t.Context()); got != cluster || err != nil {
			t.Errorf("the pipeline is told %q, %v", got, err)
		}
		p := &preflight.Prober{Cfg: w.Config, Target: w.target}
		if _, err := p.Profile(t.Context()); err != nil || p.Found.Cluster != cluster {
			t.Errorf("the probe found %q, %v", p.Found.Cluster, err)
		}
	}
}

// The cluster that the probe found is compared with the ledger before a run begins, whatever the
// pipeline learns later beside its tables.
func TestH46_NothingBeginsInAnotherCluster(t *testing.T) {
	w, _ := connected(t)
	begin(t, w)
	w.found, w.Once, w.Idle = preflight.Found{Cluster: "c2"}, true, time.Second
	if err := w.replicate(t.Context(), nil); !errors.Is(err, checkpoint.ErrClusterChanged) {
		t.Errorf("%v", err)
	}
}
