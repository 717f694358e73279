package worker

import (
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/parked"
	"github.com/dynamodb-bigtable/replicator/internal/preflight"
	"github.com/dynamodb-bigtable/replicator/sink"
)

// An app profile that is led to another cluster while a worker runs is noticed by whoever asks
// then, and not told from memory: by the pipeline, by the probe, and by a retry.
func TestH46_TheClusterIsAskedForAnew(t *testing.T) {
	w, routed := connected(t)
	ledger := begin(t, w)
	ask := w.pipeline(ledger, nil, silentObserver()).Cluster
	d := &parked.Decision{Cfg: w.Config, Target: w.target}
	for _, cluster := range []string{"c1", "c2"} {
		routed.Store(cluster)
		if got, err := ask(t.Context()); got != cluster || err != nil {
			t.Errorf("the pipeline is told %q, %v", got, err)
		}
		p := &preflight.Prober{Cfg: w.Config, Target: w.target}
		if _, err := p.Profile(t.Context()); err != nil || p.Found.Cluster != cluster {
			t.Errorf("the probe found %q, %v", p.Found.Cluster, err)
		}
		if err := d.SameCluster(t.Context(), ledger); (err == nil) != (cluster == "c1") || err != nil && !errors.Is(err, checkpoint.ErrClusterChanged) {
			t.Errorf("a retry into %s: %v", cluster, err)
		}
	}
	routed.Store("")
	var profile *sink.ProfileError
	if err := d.SameCluster(t.Context(), ledger); !errors.As(err, &profile) {
		t.Errorf("a retry by a profile that is gone, which may lead anywhere: %v", err)
	}
}

// What the probe found is held against the ledger before a run begins, whatever the pipeline is
// told later, which asks beside its tables.
func TestH46_NothingBeginsInAnotherCluster(t *testing.T) {
	w, _ := connected(t)
	begin(t, w)
	w.found, w.Once, w.Idle = preflight.Found{Cluster: "c2"}, true, time.Second
	if err := w.replicate(t.Context(), nil); !errors.Is(err, checkpoint.ErrClusterChanged) {
		t.Errorf("%v", err)
	}
}
