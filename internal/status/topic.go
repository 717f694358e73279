package status

import (
	"fmt"

	"github.com/dynamodb-bigtable/replicator/checkpoint"
	"github.com/dynamodb-bigtable/replicator/internal/terminal"
)

// stepApply is what fails while a message stands in the dead letter.
const stepApply = "apply messages"

// fromTopic judges a table that is applied from a topic: checkpoints say what is published, and the
// unbroken prefix of each shard's messages what is applied. Without that, and while anything stands
// in the dead letter, the table is not in sync.
func (t *Table) fromTopic(m *Document, in TableInput) {
	if in.State.Apply != checkpoint.Topic {
		return
	}
	behind, oldest := uint64(0), 0.0
	for _, s := range checkpoint.Unapplied(in.State, in.Shards, in.Merged) {
		n, applied := s.Behind(in.Merged)
		behind += n
		since := applied.At
		if since.IsZero() {
			t.LagSeconds = nil         // nothing is known to be applied
			since = in.State.AdoptedAt // nothing of the generation was published before
		}
		lag := m.At.Sub(since).Seconds()
		if !since.IsZero() {
			oldest = max(oldest, lag)
		}
		if t.LagSeconds != nil && lag > *t.LagSeconds {
			t.LagSeconds, t.LagEstimated = &lag, false
		}
	}
	t.Behind, t.TopicLag, t.DeadLetter = &behind, &oldest, in.Dead.Messages
	if in.Dead.Messages > 0 {
		t.troubled(checkpoint.Trouble{Step: stepApply, Since: in.Dead.Since,
			Cause: fmt.Sprintf("%s or more in the dead letter: no applier could read them", terminal.Plural(in.Dead.Messages, "message"))}, 0)
	}
	if (behind > 0 || in.Dead.Messages > 0) && t.Phase == PhaseInSync {
		t.Phase = PhaseCopy
	}
}
