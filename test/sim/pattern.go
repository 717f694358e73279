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

// found returns the search by which a table of a pattern joins. Each worker searches for it and
// skips known tables. Spec is the table as it joins.
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
					continue // it matches no pattern
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

// disappear makes the service not know the table for some time, although its stream can be read.
func (s *simulation) disappear(e event) {
	s.World.Inject("table out of sight")
	s.Source.MissingUntil = s.World.Now().Add(s.span(e, 3*time.Hour))
	s.healthy = max(s.healthy, s.Source.MissingUntil.Sub(simEpoch))
}

// withoutImages gives the table a stream without images, as an operator's mistake does, and later
// one with images.
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

// otherCluster makes the app profile route to another cluster for some time. No worker may work
// there, and all may resume afterwards (H46).
func (s *simulation) otherCluster(e event) {
	s.elsewhere = max(s.elsewhere, s.World.Elapsed()+s.span(e, 3*time.Hour))
	s.healthy = max(s.healthy, s.elsewhere)
}

// whichCluster returns the cluster of the app profile. Sometimes it fails, or does not answer until
// the client's deadline.
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
	// The home cluster is the one in the ledger. A ledger that was recreated or restored meanwhile
	// belongs to the cluster where it is.
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

// knownCluster returns the cluster that the ledger names as the target, or "".
func (s *simulation) knownCluster() string {
	return recordOf[pipelineRecord](s.Target.Row(model.StateTable, "default/pipeline")).Cluster
}

// policy is the seed's policy for items that cannot be stored. In most seeds any number of them may
// be parked.
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

// relax is the operator's reaction after a worker ended because of the policy: later workers park
// without limit.
func (s *simulation) relax() { s.Policy = policy{} }
