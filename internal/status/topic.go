package status

import (
	"github.com/dynamodb-bigtable/replicator/checkpoint"
)

// fromTopic judges a table that is applied from a topic: checkpoints say what is published, and the
// unbroken prefix of each shard's messages what is applied. Without that the table is not in sync.
func (t *Table) fromTopic(m *Document, in TableInput) {
	if in.State.Apply != checkpoint.Topic {
		return
	}
	behind := uint64(0)
	for _, s := range checkpoint.Unapplied(in.State, in.Shards, in.Merged) {
		n, applied := s.Behind(in.Merged)
		behind += n
		if applied.At.IsZero() {
			t.LagSeconds = nil // nothing is known to be applied
			continue
		}
		if lag := m.At.Sub(applied.At).Seconds(); t.LagSeconds != nil && lag > *t.LagSeconds {
			t.LagSeconds, t.LagEstimated = &lag, false
		}
	}
	t.Behind = &behind
	if behind > 0 && t.Phase == PhaseInSync {
		t.Phase = PhaseCopy
	}
}
