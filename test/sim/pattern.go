package sim

import (
	"context"
	"time"

	"github.com/dynamodb-bigtable/replicator/internal/engine"

	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/internal/task"
	"github.com/dynamodb-bigtable/replicator/sink"
	"github.com/dynamodb-bigtable/replicator/test/sim/model"
)

// found is how a table joins that a pattern stands for: each worker looks for it, and passes over
// what it knows. Spec is the table as it joins.
func (s *simulation) found(o *engine.Options, spec engine.Spec) func(context.Context, func(string) bool) (engine.Discovery, error) {
	return func(ctx context.Context, followed func(string) bool) (out engine.Discovery, err error) {
		if err := s.Source.Call(ctx, "ListTables", ""); err != nil {
			return out, err
		}
		listed := !s.Source.OutOfSight()
		states, err := o.Ledger.Tables(ctx)
		if err != nil {
			return out, err
		}
		if !listed {
			for _, state := range states {
				if state.Source != s.Source.Name {
					continue // no pattern stands for it
				}
				out.Refused = append(out.Refused, engine.Refusal{Table: state.Source, Reason: engine.GoneReason})
			}
			return out, nil
		}
		if followed(s.Source.Name) {
			return out, nil
		}
		_, err = s.Source.Describe(ctx, s.Source.Name)
		switch {
		case cdc.Is(err, cdc.NotFound):
			return out, nil
		case cdc.Is(err, cdc.Denied), cdc.Is(err, cdc.Malformed):
			out.Refused = append(out.Refused, engine.Refusal{Table: s.Source.Name, Reason: "it cannot be described"})
			return out, nil
		case err != nil:
			return out, err
		}
		out.Tables = append(out.Tables, spec)
		return out, nil
	}
}

// disappear lets the table be unknown to the service for a while, though its stream can be read.
func (s *simulation) disappear(e event) {
	s.World.Inject("table out of sight")
	s.Source.MissingUntil = s.World.Now().Add(s.span(e, 3*time.Hour))
	s.healthy = max(s.healthy, s.Source.MissingUntil.Sub(simEpoch))
}

// withoutImages gives the table a stream that does not tell what items were and became, as an
// operator's mistake does, and later one that does.
func (s *simulation) withoutImages(e event) {
	if s.Source.Stream().Ended {
		return
	}
	s.World.Inject("stream without images")
	s.Source.EnableStream(1).View = []string{"KEYS_ONLY", "OLD_IMAGE"}[e.pick%2]
	d := s.span(e, 2*time.Hour)
	s.healthy = max(s.healthy, s.World.Elapsed()+d)
	s.later(d, func() {
		if !s.Source.Stream().Ended {
			s.World.Inject("new stream")
			s.Source.EnableStream(1 + int(e.pick/2%3))
		}
	})
}

// otherCluster lets the app profile route to another cluster for a while: nobody may work there,
// and everybody may when it is over (H46).
func (s *simulation) otherCluster(e event) {
	s.elsewhere = max(s.elsewhere, s.World.Elapsed()+s.span(e, 3*time.Hour))
	s.healthy = max(s.healthy, s.elsewhere)
}

// whichCluster is what the target says of the app profile; now and then it cannot tell, or does not
// answer, which its client waits for as long as it may.
func (s *simulation) whichCluster(ctx context.Context) (string, error) {
	if err := s.targetFault("GetAppProfile", "", ""); err != nil {
		return "", err
	}
	if s.World.Rand().IntN(16) == 0 && !s.peaceful {
		s.World.Inject("no answer of the control plane")
		return "", task.NewEvent(ctx).Wait(ctx)
	}
	if s.World.Rand().IntN(8) == 0 && !s.peaceful {
		return "", nil
	}
	// At home is where the ledger says, for a ledger that was begun or restored meanwhile belongs
	// where it is.
	is := "one"
	known := s.knownCluster()
	if known != "" {
		is = known
	}
	if s.World.Elapsed() < s.elsewhere {
		is += "'"
	}
	return is, nil
}

// knownCluster is the cluster that the ledger says the target is; "" if it says none.
func (s *simulation) knownCluster() string {
	return recordOf[pipelineRecord](s.Target.Row(model.StateTable, "default/pipeline")).Cluster
}

// policy is what a seed says of items that cannot be stored: in most any number of them may be
// parked.
type policy struct {
	onBadItem sink.OnBadItem
	maxParked int
}

func drawPolicy(seed uint64) policy {
	rng := stream(seed, "bad items")
	switch rng.IntN(16) {
	case 0, 1:
		return policy{maxParked: 1 + rng.IntN(4)}
	case 2, 3:
		return policy{onBadItem: sink.Stop}
	}
	return policy{}
}

// relax is what an operator does after a worker ended for the sake of the policy: those that follow
// park as much as comes.
func (s *simulation) relax() { s.Policy = policy{} }
