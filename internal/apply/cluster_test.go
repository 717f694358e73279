package apply

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/task"
)

// H46: when the app profile routes to another cluster, an applier ends as soon as a worker would.
// It then writes nothing until a failover has moved the ledger there.
func TestH46_AnotherClusterEndsTheApplier(t *testing.T) {
	playScene(t, func(s *scene) {
		s.must(s.Ledger.CheckCluster(s.ctx, "one"))
		const rerouted = 5 * time.Minute
		cluster := "one"
		s.after(rerouted, func() { cluster = "two" })
		s.Cluster = func(context.Context) (string, error) {
			return cluster, nil
		}
		s.message(1, 7)
		s.after(rerouted+engine.NoticeTime+time.Second, func() { s.message(2, 7) })
		err := s.ends(time.Hour)
		if !errors.Is(err, checkpoint.ErrClusterChanged) || s.took() < rerouted || s.took() > rerouted+engine.NoticeTime || !s.noted(1) || s.writes != 1 {
			t.Errorf("after %s %v, %d writes", s.took(), err, s.writes)
		}
		s.meanwhile = nil
		s.message(2, 7)
		s.must(s.Ledger.Move(s.ctx, "one", "two"))
		if s.applies(time.Minute); !s.noted(2) {
			t.Error("the message is not applied after the failover")
		}
	})
}

// An applier continues while Bigtable's control plane does not answer or cannot name the cluster.
func TestAnApplierNeedsNoAnswerOfTheControlPlane(t *testing.T) {
	for name, ask := range map[string]func(context.Context) (string, error){
		"silent":  func(ctx context.Context) (string, error) { return "", task.NewEvent(ctx).Wait(ctx) },
		"unknown": func(context.Context) (string, error) { return "", nil },
	} {
		playScene(t, func(s *scene) {
			s.must(s.Ledger.CheckCluster(s.ctx, "one"))
			s.Cluster = ask
			s.message(1, 7)
			s.after(30*time.Minute, func() { s.message(2, 7) })
			if s.applies(time.Hour); !s.noted(1) || !s.noted(2) || (len(s.failed) > 0) != (name == "silent") || s.took() > time.Hour+time.Minute {
				t.Errorf("%s: after %s, %d failures", name, s.took(), len(s.failed))
			}
		})
	}
}
