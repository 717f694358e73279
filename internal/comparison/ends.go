package comparison

import (
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/repair"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// Source is the source of a migration as it is compared and repaired from.
type Source interface {
	engine.Database
	repair.Source
}

// Target is the target of a migration as it is compared.
type Target = verify.Target

// ends are both ends of a migration as an operator works with them.
type ends struct {
	source Source // nil before it was asked
	target Target
	repair repair.Target
	stream func(arn string) cdc.Source // nil: a worker has to read it
	// witness is where the witnesses of a target table are; nil: nobody else writes one.
	witness func(table string) checkpoint.Store
}

// endsOf are those of a migration that a desk opened, with their clients.
func endsOf(m *desk.Migration) (e ends) {
	if m.Source != nil {
		e.source = m.Source.Tables
		e.stream = func(arn string) cdc.Source { return m.Source.Stream(arn) }
	}
	if m.Target != nil {
		e.target, e.repair, e.witness = m.Target.Data, m.Target, m.Target.WitnessStore
	}
	return e
}
