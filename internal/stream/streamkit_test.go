package stream

import (
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/test/enginetest"
)

// reconcilerOf is the reconciler of a rig.
func reconcilerOf(r *enginetest.Rig) *Reconciler {
	return enginetest.PartOf(r, func(s *engine.Table) *Reconciler { return New(s, NewAdmission(s)) })
}
