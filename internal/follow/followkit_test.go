package follow

import (
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
)

// assignerOf is the assigner of a rig.
func assignerOf(r *enginetest.Rig) *Assigner {
	return enginetest.PartOf(r, func(s *engine.Table) *Assigner {
		return NewAssigner(s, NewFollower(s, nil, NewSettleRoom(engine.SettleBytes), nil))
	})
}
