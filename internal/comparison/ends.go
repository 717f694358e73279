package comparison

import (
	"github.com/dynamodb-bigtable/replicator/cdc"
	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/desk"
	"github.com/dynamodb-bigtable/replicator/internal/engine"
	"github.com/dynamodb-bigtable/replicator/internal/repair"
	"github.com/dynamodb-bigtable/replicator/verify"
)

// Source is the part of the source that comparisons and repairs read.
type Source interface {
	engine.Database
	repair.Source
}

// Target is the part of the target that comparisons read.
type Target = verify.Target

// ends holds both databases of a migration, for a command.
type ends struct {
	source Source // nil before connect
	target Target
	repair repair.Target
	stream func(arn string) cdc.Source // if nil, a worker must read the stream
	// witness returns the store of a target table's witness rows. If witness is nil, the command
	// assumes that no other migration writes the target.
	witness func(table string) checkpoint.Store
}

// endsOf returns the clients of both databases, for a migration that package desk opened.
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
